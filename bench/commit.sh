#!/bin/sh
# The commit of this tree, with `-dirty` behind it if other files than the report's differ from it: what measures writes those
# itself. Fails where git does not know the tree. For `cmwq-bench`, `thumbs bench`, commands.sh and builds.sh.
set -eu
# Those of a hook of git's, for example, name another tree.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
cd "$(dirname "$0")"
commit=$(git describe --always)
changed=$(git status --porcelain --untracked-files=no -- :/ ':(top,exclude)bench/REPORT.md' ':(top,exclude)bench/report')
echo "$commit${changed:+-dirty}"
