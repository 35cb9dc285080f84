#!/usr/bin/env bash
# A pool on images of an ordinary user, served by that user: the mount goes through fusermount3, the files are
# theirs, and what takes root says so. Then what a mount by root has that theirs has not.
if [[ $(id -u) == 0 && -z ${ZUSE_OWN_MOUNTS:-} ]]; then
  ZUSE_OWN_MOUNTS=1 exec unshare -m -- "$0" "$@" # what is mounted here is seen by nobody else
fi
. "$(dirname "$0")/lib.sh"
command -v fusermount3 >/dev/null || die "fusermount3 (package fuse3) is missing"
[[ $(id -u) == 0 ]] || die "needs root"
readonly USER_ID=65534 # nobody: an account that every machine has
chmod 711 "$WORK"
mkdir "$WORK/bin" "$WORK/home" "$WORK/home/mnt"
cp "$BIN/zuse" "$BIN/zinject" "$WORK/bin/" # the build may lie where only its owner may look
chown -R $USER_ID "$WORK/home"
# Everybody may use /dev/fuse, as udev has it.
mknod -m 666 "$WORK/fuse" c 10 229 && mount --bind "$WORK/fuse" /dev/fuse
cd "$WORK/home"
own=$WORK/home
as_user() {
  setpriv --reuid=$USER_ID --regid=$USER_ID --clear-groups env -u ZUSE_RUN_DIR \
    HOME="$own" XDG_RUNTIME_DIR="$own" PATH="$WORK/bin:$PATH" "$@"
}
shown() { awk -v at="$1" '$2 == at {print $1, $3, "," $4 ","}' /proc/self/mounts; }
users_daemon_ends() {
  local i
  for ((i = 0; i < 300; i++)); do
    [[ -S $own/zuse/$POOL.sock ]] || return 0
    sleep 0.1
  done
  die "the user's daemon stays"
}
trap 'status=$?; as_user zuse pool export -f $POOL >/dev/null 2>&1 || :; umount -l /dev/fuse || :; cleanup $status' EXIT

as_user truncate -s 128M d0.img d1.img d2.img
as_user zuse pool create -m "$own/mnt" $POOL raidz1 d0.img d1.img d2.img || die "create"
line=$(shown "$own/mnt")
[[ $line == "$POOL fuse ,"* ]] || die "the mount is shown as '$line'"
for option in nosuid nodev default_permissions user_id=$USER_ID; do
  [[ $line == *",$option,"* ]] || die "the user's mount lacks $option: $line"
done
if ! grep -qx '[[:space:]]*user_allow_other[[:space:]]*' /etc/fuse.conf 2>/dev/null; then
  [[ $line != *",allow_other,"* ]] || die "the user's mount is open to all: $line"
  ls "$own/mnt" 2>/dev/null && die "others may look into the user's mount"
fi
[[ $(stat -c '%a %u' "$own/zuse/$POOL.sock" "$own/zuse" | tr '\n' ' ') == "600 $USER_ID 700 $USER_ID " ]] || die "the socket is not private"

as_user sh -e -c "cd mnt && echo text >file && mkdir dir && ln -s file link && chmod 600 file" || die "ordinary work"
[[ $(as_user stat -c '%u %a' mnt mnt/file mnt/dir | tr '\n' ' ') == "$USER_ID 755 $USER_ID 600 $USER_ID 755 " ]] || die "files are not the user's"
as_user chown 0 mnt/file 2>"$WORK/err" && die "the user gives files away"
grep -q "not permitted" "$WORK/err" || die "chown says '$(cat "$WORK/err")'"
as_user mknod mnt/null c 1 3 2>/dev/null && die "the user makes devices"
as_user zuse pool status $POOL | grep -q ONLINE || die "status"
as_user zuse pool scrub -w $POOL || die "scrub"

# Unmounted from outside, and exported.
as_user fusermount3 -u mnt || die "fusermount3 -u"
users_daemon_ends
as_user zuse pool check d0.img d1.img d2.img || die "not exact after unmounting"
as_user zuse pool import -d . $POOL || die "import"
[[ $(as_user cat mnt/file) == text ]] || die "the file changed"
as_user zuse pool export $POOL || die "export"
[[ -z $(shown "$own/mnt") ]] || die "mounted after export"
as_user zuse pool check d0.img d1.img d2.img || die "not exact after export"

# What is not theirs.
truncate -s 128M "$WORK/root.img"
refused 1 "root.img.*Permission denied" as_user zuse pool create -m "$own/mnt" other "$WORK/root.img"
chown $USER_ID "$WORK/root.img" && chmod 400 "$WORK/root.img"
refused 1 "root.img.*Permission denied" as_user zuse pool create -m "$own/mnt" other "$WORK/root.img"
mkdir "$WORK/roots"
as_user zuse pool import -d . -R "$WORK/roots" $POOL 2>"$WORK/err" && die "mounted below a directory of root's"
grep -q "$WORK/roots.*Permission denied" "$WORK/err" || die "a mount point of root's: '$(cat "$WORK/err")'"
as_user zuse pool export $POOL

# Root may import the same images: all may use the mount then, as far as modes let them.
zuse pool import -d . $POOL
line=$(shown "$own/mnt")
[[ $line == "$POOL fuse ,"*",default_permissions,"* && $line == *",allow_other,"* ]] || die "root's mount is shown as '$line'"
[[ $line != *",nodev,"* && $line != *",nosuid,"* ]] || die "root's mount lacks dev or suid: $line"
[[ $(as_user cat mnt/file) == text ]] || die "root's mount is closed to the owner"
setpriv --reuid=12345 --regid=12345 --clear-groups cat mnt/file 2>/dev/null && die "modes are not looked at"
refused 1 "$POOL" as_user zuse pool status $POOL
refused 1 "$POOL" as_user env ZUSE_RUN_DIR="$ZUSE_RUN_DIR" zuse pool export $POOL
mknod mnt/null c 1 3 && echo x >mnt/null || die "a device does not work on root's mount"
zuse pool export $POOL
zuse pool check d0.img d1.img d2.img || die "not exact after root's turn"
echo "user: passed"
