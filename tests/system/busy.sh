#!/usr/bin/env bash
# The mount ends under load: what was acknowledged is there afterwards, whoever ends it and however. Writers note
# a file in a list of their own once its fsync has returned; every noted file must be whole after the next import.
. "$(dirname "$0")/lib.sh"
images 3 512M
pids=()

# content N FILE BYTES
content() { { yes "writer $1 file $2" || :; } 2>/dev/null | head -c "$3"; } # yes never ends well

# writer N: files of a known content, some large, each noted when it is on disk. It ends with its first error.
writer() {
  local i size
  for ((i = 0; ; i++)); do
    size=$(((i * 7919 + $1 * 104729) % 300000 + 1))
    { content $1 $i $size >"$MNT/w$1/$i" && sync "$MNT/w$1/$i"; } 2>/dev/null || return 0
    echo "$i $size" >>"$WORK/noted.$1"
    ((i < 8)) || rm -f "$MNT/w$1/$((i - 8))" 2>/dev/null || return 0
  done
}
reader() {
  while cat "$MNT"/w*/* >/dev/null 2>&1 || [[ -d $MNT/w0 ]]; do :; done
}
start() {
  local n
  rm -f "$WORK"/noted.*
  rm -rf "$MNT"/w*
  pids=()
  for n in 0 1 2; do
    mkdir "$MNT/w$n"
    : >"$WORK/noted.$n"
    writer $n &
    pids+=($!)
  done
  reader &
  pids+=($!)
  until [[ $(cat "$WORK"/noted.* | wc -l) -gt ${1:-12} ]]; do sleep 0.05; done # all are at work
}
ended() { # the daemon, then those who worked
  local i
  for ((i = 0; i < 600; i++)); do
    [[ -S $ZUSE_RUN_DIR/$POOL.sock ]] || break
    sleep 0.1
  done
  [[ -S $ZUSE_RUN_DIR/$POOL.sock ]] && die "the daemon stays after $1"
  mountpoint -q "$MNT" && die "mounted after $1"
  wait "${pids[@]}" 2>/dev/null || true
  zuse pool check "${IMAGES[@]}" >"$WORK/check" 2>&1 || die "not exact after $1: $(cat "$WORK/check")"
  grep -qE "daemon_failed|failed_check|request_failed" "$ZUSE_RUN_DIR/$POOL.log" && die "after $1 the log says: $(grep -E 'daemon_failed|failed_check|request_failed' "$ZUSE_RUN_DIR/$POOL.log" | head -3)"
  zuse pool import -d "$WORK" $POOL || die "import after $1"
  local n number size
  for n in 0 1 2; do
    # The last eight are not removed by the writer; the oldest of them may be half way.
    while read -r number size; do
      cmp -s "$MNT/w$n/$number" <(content $n "$number" "$size") ||
        die "after $1, file $number of writer $n ($size bytes, noted) is $(stat -c %s "$MNT/w$n/$number" 2>&1) bytes or differs"
    done < <(tail -n 7 "$WORK/noted.$n")
  done
  zuse pool status $POOL | grep -q 'errors: No known data errors' || die "errors after $1"
}

create $POOL raidz1 "${IMAGES[@]}"

for round in 1 2 3; do
  start $((round * 5))
  kill -TERM "$(daemon_pid)"
  ended "SIGTERM, round $round"
done

# While files are open, export and umount are refused, and nothing else happens.
start
exec 7>"$MNT/held"
zuse pool export $POOL 2>"$WORK/err" && die "exported while busy"
grep -q busy "$WORK/err" || die "the refusal says '$(cat "$WORK/err")'"
fusermount3 -u "$MNT" 2>/dev/null && die "fusermount3 -u while busy"
mountpoint -q "$MNT" || die "gone after a refusal"
noted=$(cat "$WORK"/noted.* | wc -l)
until [[ $(cat "$WORK"/noted.* | wc -l) -gt $((noted + 6)) ]]; do sleep 0.05; done # they go on
echo held >&7
exec 7>&-
zuse pool export -f $POOL || die "export -f"
ended "export -f"
[[ $(cat "$MNT/held") == held ]] || die "what was closed before export -f is lost"

# Detached from outside, files that are open go on working; the daemon ends with the last of them.
start
exec 7>"$MNT/held"
fusermount3 -uz "$MNT" || die "fusermount3 -uz"
mountpoint -q "$MNT" && die "still in the tree of names"
for ((i = 0; i < 200; i++)); do echo "line $i" >&7 || die "an open file is dead after fusermount3 -uz"; done
[[ -S $ZUSE_RUN_DIR/$POOL.sock ]] || die "the daemon ends before the last file is closed"
exec 7>&-
ended "fusermount3 -uz"
[[ $(wc -l <"$MNT/held") == 200 ]] || die "what was written after fusermount3 -uz is lost"

# Small writes, never synced by whoever made them, are the file system's to keep.
for ((i = 0; i < 500; i++)); do echo "$i" >"$MNT/small$i"; done
kill -TERM "$(daemon_pid)"
pids=()
: >"$WORK/noted.0" >"$WORK/noted.1" >"$WORK/noted.2"
ended "SIGTERM after small writes"
for ((i = 0; i < 500; i++)); do [[ $(cat "$MNT/small$i") == "$i" ]] || die "small write $i is lost"; done
zuse pool export $POOL
zuse pool check "${IMAGES[@]}" || die "not exact"
echo "busy: passed"
