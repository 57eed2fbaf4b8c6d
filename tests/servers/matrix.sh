#!/usr/bin/env bash
# Runs the tests on every available server, and prints the results. It fails if any test fails, or
# if no server is available.
#
#   tests/servers/matrix.sh [NAME...]    only servers with these names in fetch.sh
#
# SUITES lists the packages to test, and PROTOCOLS the versions of RESP, 2 and 3 by default.
# OPTIONAL=1 accepts that no server is available.
set -euo pipefail
cd "$(dirname "$0")/../.."
read -ra suites <<<"${SUITES:-$(echo ./tests/{conformance,atomic,wake,api,worker,interop})}"
read -ra protocols <<<"${PROTOCOLS:-2 3}"
memory='iniredis|/^miniredis$' # the tests that need no server
results=$PWD/.cache/servers/results/$(printf '%s-' "${@:-all}")
logs=$results/logs
binaries=$results/tests
rm -rf "$logs" "$binaries"
mkdir -p "$logs" "$binaries"

layout='%-17s %-8s %-5s'
for suite in "${suites[@]}"; do
  layout+="  %-$((${#suite} < 12 ? 12 : ${#suite}))s"
done
layout+='\n'
table=$(printf "$layout" server version RESP "${suites[@]}")
failed=()

servers=$(tests/servers/fetch.sh "$@")
if [ -z "$servers" ]; then
  echo "left out: no server could be had" >&2
  exit $((${OPTIONAL:-0} == 0))
fi
go test -c -tags interop -o "$binaries/" "${suites[@]}"
while read -r name version program; do
  for resp in "${protocols[@]}"; do
    cells=()
    for suite in "${suites[@]}"; do
      log=$logs/$name-resp$resp-${suite//[.\/]/}.log
      echo "$name $version RESP$resp: $suite"
      began=$SECONDS
      if (cd "$suite" && QLESS_REDIS_SERVER=$program QLESS_RESP=$resp \
        "$binaries/$(basename "$suite").test" -test.timeout 20m -test.skip "$memory") >"$log" 2>&1 </dev/null; then
        cells+=("passed $((SECONDS - began)) s")
      else
        cells+=("FAILED")
        failed+=("$log")
      fi
    done
    table+=$'\n'$(printf "$layout" "$name" "$version" "$resp" "${cells[@]}")
  done
done <<<"$servers"

printf '\n%s\n' "$table"
for log in "${failed[@]}"; do
  printf '\n%s:\n' "$log"
  grep -E '^ *--- FAIL|^panic|^FAIL' "$log" || tail -n 20 "$log"
done
test ${#failed[@]} -eq 0
