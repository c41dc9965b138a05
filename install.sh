#!/bin/sh
# Installs hakobu from its tarball for one user, without root: the program, its manual pages and its completions.
set -eu

usage() {
  cat <<'END'
usage: install.sh [--prefix DIRECTORY] [TARBALL]
       install.sh [--prefix DIRECTORY] --uninstall

  TARBALL             hakobu-VERSION-MACHINE-linux.tar.gz, with SHA256SUMS beside it
                      [default: the one for this machine, beside this script or in ./dist]
  --prefix DIRECTORY  where bin and share are [default: ~/.local]
  --uninstall         remove what this script has installed there
END
}
say() { printf '%s\n' "$*"; }
die() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 1
}

# The list of the installed files, below the prefix.
list=share/hakobu/installed-files

# sha256_of FILE: its digest.
sha256_of() {
  if command -v sha256sum >/dev/null; then
    sha256sum <"$1" | cut -d ' ' -f 1
  elif command -v shasum >/dev/null; then
    shasum -a 256 <"$1" | cut -d ' ' -f 1
  else
    die "neither sha256sum nor shasum is on the PATH, so the tarball cannot be checked"
  fi
}

# find_tarball: the tarball for this machine that the sums of a release name.
find_tarball() {
  script=$(dirname -- "$0")
  for directory in "$script/dist" "$script" dist; do
    [ -f "$directory/SHA256SUMS" ] || continue
    name=$(awk -v machine="$(uname -m)" '$2 ~ "^hakobu-.*-" machine "-linux[.]tar[.]gz$" { print $2; exit }' \
      "$directory/SHA256SUMS")
    if [ -n "$name" ] && [ -f "$directory/$name" ]; then
      printf '%s\n' "$directory/$name"
      return
    fi
  done
  die "no tarball for $(uname -m) is in dist or beside this script; give its path, or make it with: cargo xtask dist"
}

# check TARBALL: compares it with the sums beside it.
check() {
  sums=$(dirname -- "$1")/SHA256SUMS
  name=$(basename -- "$1")
  [ -f "$1" ] || die "there is no file $1"
  [ -f "$sums" ] || die "cannot check $1: SHA256SUMS of the release has to lie beside it"
  wanted=$(awk -v name="$name" '$2 == name || $2 == "*" name { print $1; exit }' "$sums")
  [ -n "$wanted" ] || die "cannot check $1: $sums does not name it"
  [ "$(sha256_of "$1")" = "$wanted" ] || die "$1 is damaged: its SHA-256 is not the one in $sums; get both again"
}

# unpack TARBALL: unpacks it to $top, and lists the files to install in $work/files.
unpack() {
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  tar -xzf "$1" -C "$work" || die "cannot unpack $1"
  top=$work/$(basename -- "$1" .tar.gz)
  [ -f "$top/bin/hakobu" ] || die "$1 is no tarball of hakobu: it has no bin/hakobu"
  (cd "$top" && find bin share -type f) | LC_ALL=C sort >"$work/files"
}

# place FILE: installs one file. It appears at once, since a program that runs cannot be written to.
place() {
  directory=$prefix/$(dirname -- "$1")
  fresh=$directory/.$(basename -- "$1").new
  mkdir -p -- "$directory" || die "cannot create $directory; name another place with --prefix"
  cp -- "$top/$1" "$fresh" || die "cannot write to $directory; name another place with --prefix"
  case $1 in
    bin/*)
      chmod 755 "$fresh"
      version=$("$fresh" --version) || {
        rm -f -- "$fresh"
        die "the program of this tarball does not run in $directory on this machine ($(uname -m)); nothing was changed"
      }
      ;;
    *) chmod 644 "$fresh" ;;
  esac
  mv -f -- "$fresh" "$prefix/$1"
}

# each_installed COMMAND: runs it with each file that was installed before.
each_installed() {
  [ -f "$prefix/$list" ] || return 0
  while IFS= read -r file; do
    case $file in
      /* | *..* | '') die "$prefix/$list is damaged: it names $file" ;;
    esac
    "$1" "$file"
  done <"$prefix/$list"
}

remove() { rm -f -- "$prefix/$1"; }
remove_if_old() { grep -Fxq -- "$1" "$work/files" || remove "$1"; }

install() {
  [ -n "$tarball" ] || tarball=$(find_tarball)
  check "$tarball"
  unpack "$tarball"
  # The program comes first in the list: if it does not run, nothing else is written.
  while IFS= read -r file; do
    place "$file"
  done <"$work/files"
  each_installed remove_if_old
  mkdir -p -- "$prefix/share/hakobu"
  cp -- "$work/files" "$prefix/$list"
  report
}

report() {
  say "$version is installed in $prefix:"
  say "  bin/hakobu"
  say "  share/man/man1: $(grep -c '^share/man/' "$work/files") manual pages"
  say "  share: completions for bash, zsh and fish; licences and changes in share/doc/hakobu"
  say "  zsh finds its completion with this in ~/.zshrc, before compinit: fpath+=($prefix/share/zsh/site-functions)"
  case :$PATH: in
    *:"$prefix/bin":*) say "$prefix/bin is in PATH." ;;
    *) say "$prefix/bin is not in PATH. This adds it, for instance in ~/.profile: PATH=\"$prefix/bin:\$PATH\"" ;;
  esac
  other=$(command -v hakobu || true)
  case $other in
    '' | "$prefix/bin/hakobu") ;;
    *) say "Note: without a path, hakobu is $other in this shell." ;;
  esac
}

uninstall() {
  [ -f "$prefix/$list" ] || die "nothing is installed in $prefix by this script: there is no $prefix/$list"
  count=$(grep -c '' "$prefix/$list")
  each_installed remove
  rm -f -- "$prefix/$list"
  rmdir -- "$prefix/share/hakobu" "$prefix/share/doc/hakobu" 2>/dev/null || true
  say "removed hakobu from $prefix: $count files"
}

prefix='' tarball='' action=install
while [ $# -gt 0 ]; do
  case $1 in
    --prefix)
      [ $# -ge 2 ] || die "--prefix takes a directory"
      prefix=$2
      shift
      ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --uninstall) action=uninstall ;;
    -h | --help)
      usage
      exit 0
      ;;
    -*)
      usage >&2
      exit 2
      ;;
    *)
      [ -z "$tarball" ] || die "one tarball at a time"
      tarball=$1
      ;;
  esac
  shift
done
if [ -z "$prefix" ]; then
  [ -n "${HOME-}" ] || die "HOME is not set; name a place with --prefix"
  prefix=$HOME/.local
fi
case $prefix in
  /*) ;;
  *) prefix=$PWD/$prefix ;;
esac
"$action"
