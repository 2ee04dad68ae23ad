//! How the parts of the control plane are. Deprecated, and read only.

use serde_json::{Value, json};

use crate::{
    strategy::{Column, RestStrategy, Row, Tree},
    time::Time,
};

pub(super) struct ComponentStatus;

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::text("Status", "Status of the component conditions"),
    Column::text("Message", "Message of the component conditions"),
    Column::text("Error", "Error of the component conditions"),
];

impl RestStrategy for ComponentStatus {
    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printComponentStatus
    fn row(&self, object: &Value, _: Time) -> Row {
        let healthy = object
            .items("conditions")
            .iter()
            .find(|condition| condition.text("type") == "Healthy");
        let word = match healthy.map(|condition| condition.text("status")) {
            None => "Unknown",
            Some("True") => "Healthy",
            Some(_) => "Unhealthy",
        };
        let text = |name: &str| json!(healthy.map_or("", |condition| condition.text(name)));
        Row::new(vec![
            json!(object.at("metadata").text("name")),
            json!(word),
            text("message"),
            text("error"),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_show_the_condition_healthy() {
        let object = json!({
            "metadata": {"name": "etcd-0"},
            "conditions": [{"type": "Healthy", "status": "False", "message": "m", "error": "e"}],
        });
        let row = ComponentStatus.row(&object, Time::from_unix(0, 0));
        assert_eq!(row.cells, ["etcd-0", "Unhealthy", "m", "e"]);
        let row = ComponentStatus.row(&json!({"metadata": {"name": "x"}}), Time::from_unix(0, 0));
        assert_eq!(row.cells, ["x", "Unknown", "", ""]);
    }
}
