//! The URL of a database: `mysql://user[:password]@host[:port][/database]`.
//!
//! No message contains any part of the URL, because it may contain a password.

use super::MysqlOptions;

type UrlProblem = &'static str;

/// Options of a URL, with defaults for missing parts.
pub(super) fn parse(url: &str) -> Result<MysqlOptions, UrlProblem> {
    let rest = url
        .strip_prefix("mysql://")
        .or_else(|| url.strip_prefix("mariadb://"))
        .ok_or("it must begin with mysql://")?;
    let mut options = MysqlOptions::default();
    if rest.contains(['?', '#']) {
        return Err("it has parameters; the flags --mysql-... set what can be set");
    }
    // Split at the last @: a password may contain one, a host may not.
    let (login, location) = rest
        .rsplit_once('@')
        .ok_or("it must name the user: mysql://user@host")?;
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    options.user = decoded(user)?;
    options.password = decoded(password)?;
    let (host, database) = location.split_once('/').unwrap_or((location, ""));
    if !database.is_empty() {
        options.database = decoded(database)?;
    }
    let (host, port) = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => match host.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (host, None),
        },
    };
    if host.is_empty() {
        return Err("it must name the host: mysql://user@host");
    }
    host.clone_into(&mut options.host);
    if let Some(port) = port {
        options.port = port.parse().map_err(|_| "its port is not a number up to 65535")?;
    }
    Ok(options)
}

/// Decodes percent-encoding.
fn decoded(text: &str) -> Result<String, UrlProblem> {
    const ODD: UrlProblem = "a % in it is not followed by two hexadecimal digits (write % itself as %25)";
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend(parts.next().unwrap_or_default().bytes());
    for part in parts {
        let (code, rest) = part.split_at_checked(2).ok_or(ODD)?;
        if !code.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(ODD);
        }
        bytes.push(u8::from_str_radix(code, 16).map_err(|_| ODD)?);
        bytes.extend(rest.bytes());
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> (String, String, String, u16, String) {
        let MysqlOptions {
            user,
            password,
            host,
            port,
            database,
            ..
        } = parse(url).unwrap();
        (user, password, host, port, database)
    }

    fn expected(
        user: &str,
        password: &str,
        host: &str,
        port: u16,
        database: &str,
    ) -> (String, String, String, u16, String) {
        (user.into(), password.into(), host.into(), port, database.into())
    }

    #[test]
    fn parses_urls_with_defaults() {
        assert_eq!(parts("mysql://root@db"), expected("root", "", "db", 3306, "k3"));
        assert_eq!(parts("mysql://u:p@[::1]:1/x"), expected("u", "p", "::1", 1, "x"));
        assert_eq!(
            parts("mysql://u:p@s%40%25@db:3307/"),
            expected("u", "p@s@%", "db", 3307, "k3")
        );
    }

    #[test]
    fn rejects_invalid_urls_without_repeating_them() {
        for url in [
            "",
            "postgres://s3cret@x",
            "mysql://s3cret",
            "mysql://u:s3cret@",
            "mysql://u:s3cret%4@x",
            "mysql://u:s3cret@x:99999",
            "mysql://u:s3cret@x/y?ssl=1",
            "mysql://u:s3cret%+1@x",
        ] {
            let problem = parse(url).map(|_| ()).unwrap_err();
            assert!(!problem.contains("s3cret"), "{url}: {problem}");
        }
    }
}
