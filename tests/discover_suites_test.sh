#!/bin/sh
# discover_suites_test.sh CMAKE CTEST SCRIPT: that CTest counts a suite as skipped only where no test of it failed.
set -eu
cmake=$1 ctest=$2 script=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

# What GoogleTest prints at the end.
cat >program <<'END'
#!/bin/sh
skipped='[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] A\n'
failed='[  FAILED  ] 1 test, listed below:\n[  FAILED  ] B\n\n 1 FAILED TEST\n'
case $1 in
--gtest_list_tests) printf 'Skipped.\n  A\nFailed.\n  B\nBoth.\n  A\n  B\nSome.\n  A\n  C\n' ;;
--gtest_filter=Skipped.*) printf "[  PASSED  ] 0 tests.\n$skipped" ;;
--gtest_filter=Failed.*) printf "[  PASSED  ] 0 tests.\n$failed"; exit 1 ;;
--gtest_filter=Both.*) printf "[  PASSED  ] 0 tests.\n$skipped$failed"; exit 1 ;;
--gtest_filter=Some.*) printf "[  PASSED  ] 1 test.\n$skipped" ;;
esac
END
chmod +x program
"$cmake" -D NAME=t -D PROGRAM="$PWD/program" -D FILE="$PWD/CTestTestfile.cmake" -P "$script"
found=$("$ctest" 2>&1 | sed -n 's/.*Test *#[0-9]*: *t\.\([A-Za-z]*\) [ .]*\**\([A-Za-z]*\) .*/\1 \2/p')
expected='Skipped Skipped
Failed Failed
Both Failed
Some Passed'
[ "$found" = "$expected" ] || { printf 'expected\n%s\nfound\n%s\n' "$expected" "$found"; exit 1; }
