#!/usr/bin/env bash
# GRUB's own reader lists and compares files of pools that zuse wrote, whole and with images missing.
. "$(dirname "$0")/lib.sh"
command -v grub-fstest >/dev/null || die "grub-fstest (package grub-common) is missing"

compare() { # DIRECTORY-OF-GOLDEN IMAGES...
  local golden=$1 file digest
  shift
  for file in "$golden"/*; do
    digest=$(grub-fstest -c $# "$@" cat "(loop0)/@/tree/$(basename "$file")" 2>/dev/null | sha256sum)
    [[ $digest == "$(sha256sum <"$file")" ]] || die "GRUB reads $(basename "$file") differently with $# images ($*)"
  done
}

for level in raidz1 raidz2 raidz3 mirror; do
  n=4
  [[ $level == raidz3 ]] && n=6
  [[ $level == mirror ]] && n=2
  rm -f "$WORK"/*.img
  images $n 128M
  create $POOL $level "${IMAGES[@]}"
  rm -rf "$WORK/golden" && mkdir "$WORK/golden"
  for i in 1 100 512 4096 5000 131072 131073 900001; do head -c "$i" /dev/urandom >"$WORK/golden/f$i"; done
  head -c 300000 < <(yes text) >"$WORK/golden/compressible"
  cp -a "$WORK/golden" "$MNT/tree"
  zuse pool export $POOL
  grub-fstest -c $n "${IMAGES[@]}" ls "(loop0)/@/tree/" 2>/dev/null | grep -q compressible || die "GRUB does not list the files of $level"
  compare "$WORK/golden" "${IMAGES[@]}"
  case $level in
    raidz1) compare "$WORK/golden" "${IMAGES[@]:1}" ;;
    raidz2) compare "$WORK/golden" "${IMAGES[@]:2}"; compare "$WORK/golden" "${IMAGES[0]}" "${IMAGES[3]}" ;;
    raidz3) compare "$WORK/golden" "${IMAGES[@]:3}" ;;
    mirror) compare "$WORK/golden" "${IMAGES[1]}" ;;
  esac
  echo "$level: GRUB agrees"
done
echo "grub: passed"
