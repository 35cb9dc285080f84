#!/usr/bin/env bash
# Disks fail under load: data stays right, errors are counted on the right leaf, a scrub brings all back.
. "$(dirname "$0")/lib.sh"
images 6 200M
create $POOL raidz2 "${IMAGES[@]}"
mkdir "$WORK/golden"
for i in $(seq 40); do head -c $((i * 20011)) /dev/urandom >"$WORK/golden/f$i"; done
cp -a "$WORK/golden" "$MNT/tree" && zuse pool sync $POOL

# Reads that fail, and bits that flip.
zinject -d "$WORK/d1.img" -e io -T read -f 30 --seed 1 $POOL
zinject -d d4.img -e corrupt -T read -f 20 --seed 2 $POOL
zinject -a
same "$WORK/golden" "$MNT/tree" || die "files differ while disks lie"
zinject | grep -q corrupt || die "the rules are not listed"
zinject -c all
zuse pool status $POOL | awk '/d1.img/ && $3 > 0 {read = 1} /d4.img/ && $5 > 0 {cksum = 1} END {exit !(read && cksum)}' ||
  die "errors are not counted: $(zuse pool status $POOL)"
zuse pool clear $POOL

# A disk that fails during write is left behind, and caught up by a scrub.
zinject -d "$WORK/d2.img" -e io -T write $POOL
cp -a "$WORK/golden" "$MNT/second" && zuse pool sync $POOL
zinject -c all && zuse pool clear $POOL
zuse pool scrub -w $POOL
zuse pool status -v $POOL | grep -q 'errors: No known data errors' || die "errors remain: $(zuse pool status -v $POOL)"
zuse pool export $POOL
zuse pool check "${IMAGES[@]}" || die "not exact after faults"
rm "$WORK/d0.img" "$WORK/d5.img" # so that d2 must be right
zuse pool import -d "$WORK" $POOL
same "$WORK/golden" "$MNT/second" || die "the disk that failed was not caught up"

# One failure too many is an honest error and nothing else suffers.
zinject -d d1.img -e io -T read $POOL && zinject -a
status=0
cat "$MNT"/tree/* >/dev/null 2>"$WORK/err" || status=$?
[[ $status != 0 ]] && grep -qi 'input/output error' "$WORK/err" || die "three lost disks of raidz2 went unnoticed"
zinject -c all && zuse pool clear $POOL && zinject -a
same "$WORK/golden" "$MNT/tree" || die "files differ after the third disk came back"
echo "faults: passed"
