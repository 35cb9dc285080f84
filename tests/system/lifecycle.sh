#!/usr/bin/env bash
# However a daemon ends, what was acknowledged is on disk: export, unmount from outside, SIGTERM, kill -9.
. "$(dirname "$0")/lib.sh"
images 4 128M

check() { zuse pool check "${IMAGES[@]}" >"$WORK/check" 2>&1 || die "the pool is not exact: $(cat "$WORK/check")"; }
gone() { for _ in $(seq 100); do [[ -S $ZUSE_RUN_DIR/$POOL.sock ]] || return 0; sleep 0.1; done; die "the daemon stays"; }

create $POOL raidz1 "${IMAGES[@]}"
mountpoint -q "$MNT" || die "not mounted after create"
[[ $(zuse pool history $POOL | grep -c "pool create .*$POOL raidz1") == 1 ]] || die "the history does not begin with one create: $(zuse pool history $POOL)"
mkdir "$MNT/dir" && echo one >"$MNT/dir/file"
zuse pool export $POOL
mountpoint -q "$MNT" && die "mounted after export"
check

zuse pool import -d "$WORK" $POOL
[[ $(cat "$MNT/dir/file") == one ]] || die "the file changed"
echo two >"$MNT/dir/file"
fusermount3 -u "$MNT" || umount "$MNT"
gone
check

zuse pool import -d "$WORK" $POOL
[[ $(cat "$MNT/dir/file") == two ]] || die "unmount lost a write"
echo three >"$MNT/dir/file"
kill -TERM "$(daemon_pid)"
gone
check

zuse pool import -d "$WORK" $POOL
[[ $(cat "$MNT/dir/file") == three ]] || die "SIGTERM lost a write"
echo four >"$MNT/dir/file" && sync "$MNT/dir/file"
dd if=/dev/urandom of="$MNT/unsynced" bs=1M count=20 status=none
kill -KILL "$(daemon_pid)"
sleep 0.3
check
zuse pool import -d "$WORK" $POOL # clears the dead mount
[[ $(cat "$MNT/dir/file") == four ]] || die "kill -9 lost a write that was synced"
zuse pool status $POOL | grep -q 'errors: No known data errors' || die "errors after kill -9"

# Read-only writes no byte.
zuse pool export $POOL
before=$(sha256sum "${IMAGES[@]}")
zuse pool import -o readonly=on -d "$WORK" $POOL
[[ $(cat "$MNT/dir/file") == four ]] || die "read-only import reads something else"
(echo five >"$MNT/dir/file") 2>/dev/null && die "wrote to a read-only pool"
zuse pool export $POOL
[[ $before == "$(sha256sum "${IMAGES[@]}")" ]] || die "a read-only import wrote"

# Other name, other root, nothing mounted.
zuse pool import -N -d "$WORK" $POOL new$POOL
zuse pool list -H -o name | grep -qx "new$POOL" || die "not listed under its new name"
zuse pool export new$POOL
zuse pool import -R "$WORK/alt" -d "$WORK" new$POOL $POOL
[[ -e $WORK/alt$MNT/dir/file ]] || die "altroot is not used"
zuse pool export $POOL

# A directory of images may move, and change order and names.
mkdir "$WORK/moved"
for i in 0 1 2 3; do mv "${IMAGES[i]}" "$WORK/moved/x$((3 - i))"; done
zuse pool import -d "$WORK/moved" $POOL
[[ $(cat "$MNT/dir/file") == four ]] || die "moved images are not found"
zuse pool destroy $POOL
zuse pool import -d "$WORK/moved" 2>&1 | grep -q "pool: $POOL" && die "a destroyed pool is offered"
echo "lifecycle: passed"
