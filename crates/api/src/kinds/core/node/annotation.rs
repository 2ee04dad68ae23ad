//! Annotations of nodes that stand for what fields were not there for yet.

use serde_json::Value;

use super::taint;
use crate::{
    decode,
    field::{Error, Path},
    schema::{Type, schema},
    strategy::{ErrorList, Tree},
};

const TAINTS: &str = "scheduler.alpha.kubernetes.io/taints";
const AVOID_PODS: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";

/// What is wrong with the annotations that are read.
pub(super) fn annotations(errors: &mut ErrorList, node: &Value) {
    let annotations = node.at("metadata").at("annotations");
    let metadata = Path::new("metadata");
    let root = metadata.child("annotations");
    let text = annotations.text(TAINTS);
    if !text.is_empty() {
        taints(errors, &root, text);
    }
    let text = annotations.text(AVOID_PODS);
    if !text.is_empty() {
        avoided_pods(errors, &root, text);
    }
}

fn taints(errors: &mut ErrorList, root: &Path<'_>, text: &str) {
    let ty = schema().get("core", "v1", "Taint").expect("nodes have taints");
    let list = Type::List(Box::new(Type::Struct(ty)));
    match decode::json_type(text.as_bytes(), &list) {
        Ok(decoded) => {
            let items = decoded.value.as_array().map_or(&[][..], Vec::as_slice);
            taint::taints(errors, &root.child(TAINTS), items);
        }
        Err(error) => errors.push(Error::invalid(root, TAINTS, error.to_string())),
    }
}

fn avoided_pods(errors: &mut ErrorList, root: &Path<'_>, text: &str) {
    let avoided = match decode::untyped(text.as_bytes()) {
        Ok(decoded) => decoded.value,
        Err(error) => {
            let field_path = root.child("AvoidPods");
            errors.push(Error::invalid(&field_path, AVOID_PODS, error.to_string()));
            return;
        }
    };
    let list = root.child(AVOID_PODS);
    for (index, entry) in avoided.items("preferAvoidPods").iter().enumerate() {
        let item = list.index(index);
        let signature = item.child("PodSignature");
        let controller = entry.at("podSignature").at("podController");
        if controller.is_null() {
            errors.push(Error::required(&signature, ""));
        } else if !controller.flag("controller") {
            let field_path = signature.child("PodController");
            let detail = "must point to a controller";
            errors.push(Error::invalid(
                &field_path.child("Controller"),
                Value::Bool(false),
                detail,
            ));
        }
    }
}
