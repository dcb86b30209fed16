# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# The recipe for a stock in a database, as docs/recipes.md has it: two buyers of five
# leave three, on every strategy.

load ../lib/helpers
load mysql

prepare() {
	mkdir bin
	PATH=$T/bin:$PATH
	ln -s "$DLOCK" bin/dlock
	# Between reading and writing there is time enough for another buyer.
	cat >bin/mariadb <<-END
		#!/bin/sh
		for last; do :; done
		for argument; do
			case \$argument in --execute=*) sql=\${argument#--execute=} ;; esac
		done
		"$(type -P mariadb)" --no-defaults --socket='$MYSQL_DIR/sock' --user=root --batch \\
			--skip-column-names --execute="\$sql" "\$last"
		case \$sql in SELECT*) sleep 0.4 ;; esac
	END
	chmod +x bin/mariadb
	my "CREATE DATABASE IF NOT EXISTS shop; GRANT ALL ON shop.* TO $MYSQL_USER@'127.0.0.1';
		CREATE OR REPLACE TABLE shop.articles (id INT PRIMARY KEY, stock INT NOT NULL);
		INSERT INTO shop.articles VALUES (7, 5)"
}

# recipe PARAMETER: the script of docs/recipes.md, as ./sell, with the server of the tests in it
recipe() {
	awk '/^```/ { on = $0 == "```sh"; text = ""; next }
		on { text = text $0 "\n"; if (/SET stock/) { printf "%s", text; exit } }' \
		"$TOP/docs/recipes.md" |
		sed "s|mysql://shop@db.example.com/shop|'${MYSQL%/*}/shop?$1'|" >sell
	chmod +x sell
	grep -q 'dlock run' sell
}

# two_buyers: starts two buyers at once, in two ways
two_buyers() {
	local one
	start ./sell 7
	one=$PID
	start sh sell 7
	join "$PID"
	equal "$status" 0 "the second buyer"
	join "$one"
	equal "$status" 0 "the first buyer"
}

stock() {
	my 'SELECT stock FROM shop.articles WHERE id = 7'
}

# bats test_tags=more
@test "without the lock the recipe sells one twice" {
	recipe strategy=lease
	rm bin/dlock
	printf '#!/bin/sh\nwhile [ "$1" != -- ]; do name=$1; shift; done; shift\nDLOCK_NAME=$name exec "$@"\n' >bin/dlock
	chmod +x bin/dlock
	two_buyers
	equal "$(stock)" 4
}

# bats test_tags=more
@test "two buyers of a stock of 5 leave 3, on every strategy" {
	local strategy
	my 'CREATE TABLE shop.`stock-7` (id INT PRIMARY KEY)'
	for strategy in strategy=lease strategy=insert strategy=row strategy=advisory strategy=table \
		dialect=shedlock; do
		recipe "$strategy"
		my 'UPDATE shop.articles SET stock = 5'
		two_buyers
		equal "$(stock)" 3 "$strategy: stock"
	done
}

# bats test_tags=more
@test "the last piece of the stock is sold once" {
	recipe strategy=lease
	my 'UPDATE shop.articles SET stock = 1'
	local one codes
	start ./sell 7
	one=$PID
	start ./sell 7
	join "$PID"
	codes=$status
	join "$one"
	matches "$codes $status" '^(0 1|1 0)$'
	equal "$(stock)" 0
}
