#!/usr/bin/env bash
# Set-user-id and set-group-id go when somebody who may not keep them changes a file, as on ext4, and small
# writes to other files cost no request each for that.
. "$(dirname "$0")/lib.sh"
[[ $(id -u) == 0 ]] || die "needs root"
images 1 256M
chmod 711 "$WORK"
create $POOL "${IMAGES[@]}"
as_user() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }

# left MODE-WANTED WHAT COMMAND...: a file of mode 6757 has that mode after the command, warm and cold.
left() {
  local want=$1 what=$2 got
  shift 2
  rm -f "$MNT/f"
  head -c 20000 /dev/zero >"$MNT/f"
  chown 1234:1234 "$MNT/f"
  chmod "${START:-6757}" "$MNT/f"
  [[ $(stat -c %a "$MNT/f") == "${START:-6757}" ]] || die "chmod ${START:-6757} gives $(stat -c %a "$MNT/f")"
  "$@" || die "$what failed"
  got=$(stat -c %a "$MNT/f")
  [[ $got == "$want" ]] || die "$what leaves $got instead of $want"
  zinject -a
  got=$(stat -c %a "$MNT/f")
  [[ $got == "$want" ]] || die "$what leaves $got instead of $want once the caches are empty"
}

for by in user root; do
  if [[ $by == user ]]; then run=(as_user) want=757; else run=() want=6757; fi
  left $want "an append ($by)" "${run[@]}" sh -c "echo x >>'$MNT/f'"
  left $want "an overwrite ($by)" "${run[@]}" dd if=/dev/zero of="$MNT/f" bs=100 count=1 seek=3 conv=notrunc status=none
  left $want "a direct write ($by)" "${run[@]}" dd if=/dev/zero of="$MNT/f" bs=4096 count=1 conv=notrunc oflag=direct status=none
  left $want "a truncation ($by)" "${run[@]}" truncate -s 100 "$MNT/f"
  left $want "an open with O_TRUNC ($by)" "${run[@]}" sh -c ": >'$MNT/f'"
  left $want "fallocate past the end ($by)" "${run[@]}" fallocate -l 100000 "$MNT/f"
  left $want "fallocate in the middle ($by)" "${run[@]}" fallocate -n -o 4096 -l 4096 "$MNT/f"
  left $want "a hole ($by)" "${run[@]}" fallocate -p -o 4096 -l 4096 "$MNT/f"
done
START=6747 left 2747 "an append without group execution" as_user sh -c "echo x >>'$MNT/f'"
START=2757 left 757 "an append with set-group-id alone" as_user sh -c "echo x >>'$MNT/f'"
# Who opened the file counts for nothing, who writes does; and a mode that was cleared stays so.
left 757 "many writes" as_user sh -c "for i in 1 2 3 4 5 6 7 8 9; do echo \$i; done >>'$MNT/f'"
# A new owner or group ends both, whoever gives it.
left 757 "chown" chown 4321 "$MNT/f"
left 757 "chgrp" chgrp 4321 "$MNT/f"
START=6747 left 2747 "chown without group execution" chown 4321 "$MNT/f"
mkfifo "$MNT/fifo" && chmod 6757 "$MNT/fifo"
chown 4321 "$MNT/fifo"
[[ $(stat -c %a "$MNT/fifo") == 757 ]] || die "chown leaves a fifo $(stat -c %a "$MNT/fifo")"
left 6757 "a touch" touch "$MNT/f"
mkdir -m 2775 "$MNT/d"
chown 1234:1234 "$MNT/d"
[[ $(stat -c %a "$MNT/d") == 2775 ]] || die "a directory loses set-group-id"

# File capabilities go with a write as well, and a new one is seen.
if command -v setcap >/dev/null; then
  left 757 "a write to a file with capabilities" as_user sh -c "echo x >>'$MNT/f'"
  setcap cap_net_raw+ep "$MNT/f"
  getcap "$MNT/f" | grep -q cap_net_raw || die "no capability after setcap"
  as_user sh -c "echo x >>'$MNT/f'"
  [[ -z $(getcap "$MNT/f") ]] || die "a write leaves the capability"
fi

# Requests are counted by what the daemon reads: 2000 small writes are a handful.
requests() { awk '/^syscr/ {print $2}' "/proc/$(daemon_pid)/io"; }
for file in plain other; do
  sync "$MNT"
  before=$(requests)
  dd if=/dev/zero of="$MNT/$file" bs=512 count=2000 status=none
  cost=$(($(requests) - before))
  ((cost < 500)) || die "2000 small writes are $cost requests"
done
zuse pool export $POOL
zuse pool check "${IMAGES[@]}" || die "not exact"
echo "set-id bits: passed"
