//! How many pods a workload has, in the one form that all workloads share.

use serde_json::{Value, json};

use crate::{
    field::{Error, Path},
    rules::{Circumstances, Column, Description, Errors, Row, Rules, Tree, TreeMut, named_row},
    time::Time,
};

/// The rules of scales. Of their metadata the workload keeps nothing, so nothing is asked of it.
pub(super) struct Scale;

const COLUMNS: &[Column] = &[
    Column::field("Name", "metadata.name"),
    Column::new("Desired", "integer", Description::Field("spec.replicas")),
    Column::new("Available", "integer", Description::Field("status.replicas")),
    Column::age(),
];

impl Rules for Scale {
    fn default(&self, object: &mut Value) {
        object.make("spec");
    }

    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        let replicas = object.at("spec").int("replicas").unwrap_or_default();
        if replicas < 0 {
            let root = Path::new("spec");
            let detail = "must be greater than or equal to 0";
            errors.push(Error::invalid(&root.child("replicas"), replicas, detail));
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        let count = |part: &str| json!(object.at(part).int("replicas").unwrap_or_default());
        named_row(object, now, [count("spec"), count("status")])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_show_what_is_wanted_and_what_there_is() {
        let scale = json!({"metadata": {"name": "s"}, "spec": {"replicas": 3}, "status": {"replicas": 2}});
        let row = Scale.row(&scale, Time::from_unix(0, 0));
        assert_eq!(json!(row.cells), json!(["s", 3, 2, "<unknown>"]));
    }
}
