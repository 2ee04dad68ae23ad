# What images of MySQL do: at the first start, make the database and its users as the environment describes; then serve.
set -e
data=/var/lib/mysql share=/usr/share/mysql
mkdir -p "$data" /tmp
if [ ! -e "$data/installed" ]; then
    # What an end half way left is of no use.
    rm -rf "${data:?}"/*
    : "${MYSQL_ROOT_PASSWORD:?is not set}"
    everything="GRANT ALL PRIVILEGES ON *.* TO"
    {
        echo "CREATE USER 'root'@'%' IDENTIFIED BY '$MYSQL_ROOT_PASSWORD';"
        echo "$everything 'root'@'%' WITH GRANT OPTION;"
        [ -z "$MYSQL_DATABASE" ] || echo "CREATE DATABASE \`$MYSQL_DATABASE\`;"
        if [ -n "$MYSQL_USER" ]; then
            echo "CREATE USER '$MYSQL_USER'@'%' IDENTIFIED BY '$MYSQL_PASSWORD';"
            echo "GRANT ALL PRIVILEGES ON \`$MYSQL_DATABASE\`.* TO '$MYSQL_USER'@'%';"
        fi
    } >"$data/users.sql"
    mkdir "$data/mysql"
    {
        # One statement a line is all that it reads.
        printf '%s\n' "USE mysql;" "SET @auth_root_socket=NULL;"
        cat $share/mysql_system_tables.sql $share/mysql_performance_tables.sql $share/mysql_system_tables_data.sql
        echo "FLUSH PRIVILEGES;"
        cat "$data/users.sql"
    } | /usr/sbin/mariadbd --no-defaults --bootstrap --datadir="$data" --user=root --skip-networking \
        --lc-messages-dir=$share --tmpdir=/tmp
    rm "$data/users.sql"
    touch "$data/installed"
fi
exec /usr/sbin/mariadbd --no-defaults --datadir="$data" --user=root --port=3306 --bind-address=0.0.0.0 \
    --socket=/tmp/mariadb.sock --pid-file=/tmp/mariadb.pid --lc-messages-dir=$share --tmpdir=/tmp --skip-name-resolve
