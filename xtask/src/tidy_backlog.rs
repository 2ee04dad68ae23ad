//! Crates that do not follow the vocabulary yet: how many complaints each may have at most.
//!
//! `tidy-backlog.tsv` has lines of a path prefix and a number, separated by a tab. The number may only be lowered, and a line is deleted when it reaches
//! zero. `cargo xtask tidy PATH` lists all complaints, whatever the backlog allows.

use std::{fs, io, path::Path};

const BACKLOG: &str = "xtask/tidy-backlog.tsv";

/// Removes the complaints that the backlog allows, and adds one for each prefix that has more than it may.
pub(crate) fn apply(root: &Path, complaints: Vec<String>) -> io::Result<Vec<String>> {
    match fs::read_to_string(root.join(BACKLOG)) {
        Ok(text) => filter(&text, complaints),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(complaints),
        Err(error) => Err(error),
    }
}

fn filter(backlog: &str, mut complaints: Vec<String>) -> io::Result<Vec<String>> {
    for (number, line) in (1..).zip(backlog.lines()) {
        let entry = line
            .split_once('\t')
            .and_then(|(prefix, limit)| Some((prefix, limit.parse::<usize>().ok()?)));
        let Some((prefix, limit)) = entry else {
            let problem =
                format!("{BACKLOG}:{number}: expected a path prefix and a number, separated by a tab");
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        };
        let count = complaints
            .iter()
            .filter(|complaint| complaint.starts_with(prefix))
            .count();
        if count > limit {
            complaints.push(format!(
                "{BACKLOG}:{number}: {prefix} has {count} complaints, more than {limit}"
            ));
            continue;
        }
        complaints.retain(|complaint| !complaint.starts_with(prefix));
        if count == 0 {
            complaints.push(format!(
                "{BACKLOG}:{number}: {prefix} has no complaints any more; delete the line"
            ));
        }
    }
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(backlog: &str) -> Vec<String> {
        let complaints = [
            "crates/a/x.rs:1: bad",
            "crates/a/y.rs:2: bad",
            "crates/b/z.rs:3: bad",
        ];
        filter(backlog, complaints.map(str::to_owned).into()).expect("the backlog is valid")
    }

    #[test]
    fn allows_the_number_of_complaints_and_no_more() {
        assert_eq!(filtered("crates/a/\t2"), ["crates/b/z.rs:3: bad"]);
        assert_eq!(filtered("crates/a/\t1").len(), 4);
    }

    #[test]
    fn a_line_that_is_not_needed_is_reported() {
        assert!(
            filtered("crates/c/\t5")
                .iter()
                .any(|line| line.contains("delete the line"))
        );
    }

    #[test]
    fn rejects_a_line_without_a_number() {
        assert!(filter("crates/a/", Vec::new()).is_err());
    }
}
