//! Bodies: JSON and YAML.

use k3_api::{decode, encode};
use serde_json::Value;

use super::{change, run::run, samples};

#[test]
fn any_body_decodes_stably_or_is_rejected() {
    let objects = samples::objects();
    let bodies = objects.iter().flat_map(|object| {
        let text = serde_json::to_vec(object).expect("a tree can be written");
        [text, k3_yaml::to_string(object).into_bytes()]
    });
    let types: Vec<_> = objects.iter().filter_map(samples::of).collect();
    let inputs = change::bytes(bodies.collect(), samples::SYNTAX);
    run(&inputs, |body| {
        let _ = decode::type_of(&body.0);
        if let Ok(tree) = decode::untyped(&body.0) {
            again(&tree.value, decode::untyped);
        }
        let _ = decode::yaml_to_json(&body.0);
        let ty = types[body.0.len() % types.len()];
        for decoded in [decode::json(&body.0, ty), decode::yaml(&body.0, ty)]
            .into_iter()
            .flatten()
        {
            decoded.strict_errors.strict_error();
            again(&decoded.value, |text| decode::json(text, ty));
            let normal = decode::normalize(&decoded.value, ty).expect("what was decoded is of its type");
            assert_eq!(normal.value, decoded.value);
        }
    });
}

fn again(value: &Value, decode: impl Fn(&[u8]) -> Result<decode::DecodedBody, decode::DecodeError>) {
    let text = encode::encode(value);
    let read = decode(&text).expect("what was written can be read");
    assert_eq!(&read.value, value);
}
