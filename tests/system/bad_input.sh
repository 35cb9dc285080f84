#!/usr/bin/env bash
# Bad input gets one line that names the thing, a non-zero status, and nothing is written.
. "$(dirname "$0")/lib.sh"

images 6 100M
refused 1 'at least 3 devices' create $POOL raidz2 "${IMAGES[@]:0:2}"
truncate -s 32M "$WORK/small.img"
refused 1 'small.img is too small' create $POOL raidz1 "${IMAGES[@]:0:2}" "$WORK/small.img"
refused 1 'd0.img.* twice' create $POOL raidz1 "${IMAGES[0]}" "${IMAGES[0]}" "${IMAGES[1]}"
refused 1 'nowhere.img' create $POOL raidz1 "${IMAGES[0]}" "${IMAGES[1]}" "$WORK/nowhere.img"
refused 2 'nonsense' zuse pool create --nonsense $POOL "${IMAGES[0]}"
refused 1 'invalid property' zuse pool create -O nonsense=1 -m "$MNT" $POOL "${IMAGES[0]}"
refused 1 'compression' zuse pool create -O compression=best -m "$MNT" $POOL "${IMAGES[0]}"
refused 1 'ashift' zuse pool create -o ashift=30 -m "$MNT" $POOL "${IMAGES[0]}"
refused 1 'invalid pool name' create 9lives "${IMAGES[0]}"
mkdir "$WORK/full" && touch "$WORK/full/file"
refused 1 'not empty' zuse pool create -m "$WORK/full" $POOL "${IMAGES[0]}"

create $POOL raidz2 "${IMAGES[@]}"
refused 1 "$POOL" create $POOL "$WORK/d0.img"
truncate -s 100M "$WORK/other.img"
refused 1 'd0.img' create other$POOL mirror "$WORK/d0.img" "$WORK/other.img"
refused 1 "$POOL" zuse pool import -d "$WORK" $POOL
echo data >"$MNT/file"
zuse pool export $POOL
mountpoint -q "$MNT" && die "still mounted after export"

refused 1 'no such pool|cannot import' zuse pool import -d "$WORK" nosuch
refused 1 'gone-directory' zuse pool import -d "$WORK/gone-directory" $POOL
refused 1 'exported pool' create new$POOL mirror "$WORK/d0.img" "$WORK/other.img"

# One image lost a byte, another lost all: still within parity, and named in the status.
mkdir "$WORK/saved"
cp --sparse=always "$WORK/d1.img" "$WORK/saved/1"
cp --sparse=always "$WORK/d2.img" "$WORK/saved/2"
truncate -s -1 "$WORK/d1.img"
truncate -s 0 "$WORK/d2.img"
zuse pool import -d "$WORK" -R "$WORK/alt" $POOL
grep -q DEGRADED <(zuse pool status $POOL) || die "a truncated image goes unnoticed: $(zuse pool status $POOL)"
zuse pool export $POOL
cp --sparse=always "$WORK/saved/1" "$WORK/d1.img"
cp --sparse=always "$WORK/saved/2" "$WORK/d2.img"
rm -r "$WORK/saved"

# All four labels of more images than parity covers.
for d in 3 4 5; do
  dd if=/dev/zero of="$WORK/d$d.img" bs=512K count=1 conv=notrunc status=none
  dd if=/dev/zero of="$WORK/d$d.img" bs=512K seek=199 count=1 conv=notrunc status=none
done
status=0
zuse pool import -d "$WORK" $POOL 2>"$WORK/err" || status=$?
[[ $status == 1 ]] || die "a pool without enough labels was imported"
grep -q "$POOL" "$WORK/err" || die "the error does not name the pool: $(cat "$WORK/err")"
echo "bad input: passed"
