//! Fields that count things: what may not be below nothing, above another, or go back.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    strategy::{ErrorList, Tree},
};

/// How a number below nothing is told.
pub(super) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Fields that may not be negative, in this order. What is not there is fine.
pub(super) fn nonnegative(tree: &Value, names: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    for name in names {
        if let Some(number) = tree.int(name).filter(|number| *number < 0) {
            errors.push(Error::invalid(&at.child(name), number, NOT_NEGATIVE));
        }
    }
}

/// Fields that may not be more than another. What is not there counts nothing.
pub(super) fn at_most(
    tree: &Value,
    names: &[&str],
    limit: &str,
    detail: &str,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let most = tree.int(limit).unwrap_or_default();
    for name in names {
        let number = tree.int(name).unwrap_or_default();
        if number > most {
            errors.push(Error::invalid(&at.child(name), number, detail));
        }
    }
}

/// A count of collisions, which may only grow; once it is set, it stays.
pub(super) fn collisions(new: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let name = "collisionCount";
    let Some(before) = old.int(name) else { return };
    let now = new.int(name);
    if now.is_none_or(|now| now < before) {
        let place = at.child(name);
        errors.push(Error::invalid(
            &place,
            now.unwrap_or_default(),
            "cannot be decremented",
        ));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_counts_is_not_negative_nor_more_than_all() {
        let status = json!({"replicas": 1, "ready": 2, "other": -1, "collisionCount": 3});
        let (mut errors, at) = (ErrorList::new(), Path::new("status"));
        nonnegative(&status, &["other", "replicas", "none"], &at, &mut errors);
        at_most(
            &status,
            &["ready", "other"],
            "replicas",
            "too many",
            &at,
            &mut errors,
        );
        collisions(&json!({}), &status, &at, &mut errors);
        collisions(&status, &json!({}), &at, &mut errors);
        let told: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "status.other: Invalid value: -1: must be greater than or equal to 0",
                "status.ready: Invalid value: 2: too many",
                "status.collisionCount: Invalid value: 0: cannot be decremented",
            ]
        );
    }
}
