#!/usr/bin/env bash
# The tools that people use on a file system: cp, rsync, tar, git, find, rm.
. "$(dirname "$0")/lib.sh"
images 6 400M
create $POOL raidz2 "${IMAGES[@]}"
source_tree=$WORK/source
mkdir -p "$source_tree"
cp -a /usr/include/. "$source_tree/"
ln -s nowhere "$source_tree/dangling"
ln "$source_tree/stdio.h" "$source_tree/hard"
mkfifo "$source_tree/fifo"
truncate -s 50M "$source_tree/sparse" && echo x >>"$source_tree/sparse"
setfattr -n user.note -v "a value" "$source_tree/hard" 2>/dev/null || true # the host may have no xattrs

cp -a "$source_tree" "$MNT/cp"
same "$source_tree" "$MNT/cp" || die "cp -a"
rsync -aHAX --checksum "$source_tree/" "$MNT/rsync/"
[[ -z $(rsync -aHAXni --checksum --delete "$source_tree/" "$MNT/rsync/") ]] || die "rsync finds differences"
tar -C "$source_tree" --format=posix -cf - . | (mkdir "$MNT/tar" && tar -C "$MNT/tar" -xpf -)
same "$source_tree" "$MNT/tar" || die "tar"
zinject -a
same "$source_tree" "$MNT/cp" || die "cold reads"
(
  export HOME=$WORK GIT_CONFIG_NOSYSTEM=1
  git -c init.defaultBranch=main init -q "$WORK/repo" && cd "$WORK/repo"
  cp -r /usr/include/linux . && git add . && git -c user.name=t -c user.email=t@t commit -qm one
  git clone -q "$WORK/repo" "$MNT/clone" && cd "$MNT/clone"
  git fsck --full --strict >/dev/null && [[ -z $(git status --porcelain) ]]
) || die "git"
[[ $(find "$MNT/cp" | wc -l) == $(find "$source_tree" | wc -l) ]] || die "find"
[[ $(stat -c %b "$MNT/cp/sparse") -lt 20000 ]] || die "holes are not kept"
rm -rf "$MNT/cp" "$MNT/rsync" "$MNT/tar" "$MNT/clone"
[[ -z $(ls -A "$MNT") ]] || die "rm -rf leaves something"
zuse pool export $POOL
zuse pool check "${IMAGES[@]}" || die "not exact"
echo "tools: passed"
