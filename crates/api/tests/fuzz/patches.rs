//! Patches: by operations, by example, by example with a plan.

use k3_api::{decode, patch};
use serde_json::{Value, json};

use super::{
    change::{self, Pair},
    run::run,
    samples,
};

#[test]
fn any_patch_is_applied_or_rejected() {
    let mut trees = samples::objects();
    trees.extend([
        json!([{"op": "add", "path": "/spec/containers/-", "value": {"name": "c"}}, {"op": "test", "path": "/kind", "value": "Pod"}]),
        json!([{"op": "move", "from": "/spec/containers/0", "path": "/spec/containers/1"}, {"op": "copy", "from": "/spec", "path": "/spec/spec"}]),
        json!([{"op": "replace", "path": "", "value": {}}, {"op": "remove", "path": "/metadata/labels/a~1b"}]),
        json!({"metadata": {"labels": null, "$deleteFromPrimitiveList/finalizers": ["a/b"]}}),
        json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "$patch": "delete"}, {"name": "b", "image": "k"}]}}),
        json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "t"}}], "strategy": {"$patch": "replace"}}}),
    ]);
    run(&change::pairs(&trees, samples::TOKENS), |Pair(object, patch)| {
        operations(object, patch);
        if let Ok(merged) = patch::merge::apply(object.clone(), patch.clone()) {
            let same = patch::merge::apply(merged.clone(), json!({})).expect("no change can be made");
            assert_eq!(same, merged);
        }
        if let Some(ty) = samples::of(object)
            && let Ok(merged) = patch::strategic::apply(object.clone(), patch.clone(), &ty)
        {
            let _ = decode::normalize(&merged, ty);
        }
    });
}

#[test]
fn any_bytes_are_a_patch_or_rejected() {
    let bodies = vec![
        br#"[{"op":"add","path":"/a/-","value":1}]"#.to_vec(),
        br#"{"spec":{"containers":[{"name":"a","$patch":"delete"}]}}"#.to_vec(),
    ];
    let object = samples::objects().swap_remove(0);
    let ty = samples::of(&object).expect("it is a pod");
    run(&change::bytes(bodies, samples::SYNTAX), |body| {
        let Ok(patch) = patch::read(&body.0) else { return };
        operations(&object, &patch);
        let _ = patch::merge::apply(object.clone(), patch.clone());
        let _ = patch::strategic::apply(object.clone(), patch, &ty);
    });
}

fn operations(object: &Value, patch: &Value) {
    if let Ok(patch) = patch::json::Patch::try_new(patch.clone())
        && let Err(error) = patch.apply(object.clone())
    {
        error.status();
    }
}
