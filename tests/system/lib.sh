# Common parts of the system tests: a work folder, images, pools through a real mount. Sourced, not run.
# Needs BIN (where zuse and zinject are). Every check that fails ends the test with a message.
set -euo pipefail
BIN=${BIN:?set BIN to the folder of the programs}
PATH=$BIN:$PATH
WORK=$(mktemp -d "${TMPDIR:-/tmp}/zuse-system.XXXXXX")
MNT=$WORK/mnt
POOL=t$$
export ZUSE_RUN_DIR=$WORK/run
mkdir -p "$MNT" "$ZUSE_RUN_DIR"

die() { echo "FAILED: $*" >&2; exit 1; }

# images N SIZE: makes $WORK/d0.img ... and puts the paths into IMAGES.
images() {
  IMAGES=()
  local i
  for ((i = 0; i < $1; i++)); do
    truncate -s "$2" "$WORK/d$i.img"
    IMAGES+=("$WORK/d$i.img")
  done
}

create() { zuse pool create -m "$MNT" "$@"; }

# refused STATUS PATTERN COMMAND...: the command ends with that status, says one line that matches, and nothing is written.
refused() {
  local want=$1 pattern=$2 status=0 before after
  shift 2
  before=$(stat -c '%n %s %Y %b' "$WORK"/*.img 2>/dev/null || true)
  "$@" >"$WORK/out" 2>"$WORK/err" || status=$?
  [[ $status == "$want" ]] || die "'$*' ended with $status instead of $want: $(cat "$WORK/out" "$WORK/err")"
  grep -qE -- "$pattern" "$WORK/err" || die "'$*' says '$(cat "$WORK/err")', which does not match '$pattern'"
  [[ $(wc -l <"$WORK/err") -le 1 ]] || die "'$*' says more than one line: $(cat "$WORK/err")"
  after=$(stat -c '%n %s %Y %b' "$WORK"/*.img 2>/dev/null || true)
  [[ $before == "$after" ]] || die "'$*' wrote to an image"
}

# Every file and attribute of a tree.
listing() { (cd "$1" && find . -mindepth 1 \( -type d -printf '%y %m %U %G %T@ %p\n' -o -printf '%y %m %U %G %s %n %T@ %l %p\n' \) | LC_ALL=C sort); }
contents() { (cd "$1" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum); }
same() { diff <(contents "$1") <(contents "$2") && diff <(listing "$1") <(listing "$2"); }

daemon_pid() { pgrep -f "zuse.*$POOL" | head -n 1; }

cleanup() {
  local status=${1:-$?}
  if [[ -n $(ls "$ZUSE_RUN_DIR"/*.sock 2>/dev/null) ]]; then
    zinject -c all >/dev/null 2>&1 || true # there may be no rule
    for socket in "$ZUSE_RUN_DIR"/*.sock; do zuse pool export -f "$(basename "$socket" .sock)" >/dev/null 2>&1 || pkill -f "$WORK" || true; done
  fi
  mountpoint -q "$MNT" && fusermount3 -uz "$MNT"
  rm -rf "$WORK"
  exit "$status"
}
trap cleanup EXIT
