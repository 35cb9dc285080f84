#!/usr/bin/env bash
# A full pool refuses writes, keeps what it has, and takes removals.
. "$(dirname "$0")/lib.sh"
images 3 100M
create $POOL raidz1 "${IMAGES[@]}"
status=0
# The kernel collects writes: that they did not fit shows when the file is closed.
dd if=/dev/urandom of="$MNT/big" bs=1M count=400 2>"$WORK/err" || status=$?
[[ $status != 0 ]] && grep -q 'No space left' "$WORK/err" || die "400 MiB went into a pool of 200: $(cat "$WORK/err")"
sync -f "$MNT" 2>/dev/null || sync
i=0
while cp "$WORK/err" "$MNT/small$i" 2>/dev/null && ((i < 300)); do i=$((i + 1)); done
rm "$MNT/big" || die "removing a file from a full pool fails"
zuse pool sync $POOL && zuse pool sync $POOL && zuse pool sync $POOL && zuse pool sync $POOL
dd if=/dev/urandom of="$MNT/again" bs=1M count=10 status=none || die "no room after removing"
zuse pool status $POOL | grep -q 'errors: No known data errors' || die "errors on a full pool"
zuse pool export $POOL
zuse pool check "${IMAGES[@]}" || die "a full pool is not exact"
echo "full pool: passed"
