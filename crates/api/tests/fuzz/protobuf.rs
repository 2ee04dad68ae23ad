//! Messages.

use k3_api::protobuf;

use super::{change, run::run, samples};

const TOKENS: &[&str] = &[
    "k8s\0",
    "\n\0",
    "\u{12}\0",
    "\u{1a}\0",
    "\"\0",
    "\u{8}\u{1}",
    "\u{7f}",
    "\u{ff}",
    "\n\u{7f}",
    "\0\0\0\0",
    "\u{12}\u{2}\n\0",
    "a",
];

#[test]
fn any_protobuf_message_round_trips_or_is_rejected() {
    let objects = samples::objects();
    let types: Vec<_> = objects.iter().filter_map(samples::of).collect();
    let messages: Vec<_> = objects
        .iter()
        .zip(&types)
        .map(|(object, ty)| protobuf::encode(object, *ty).expect("samples can be written"))
        .collect();
    run(&change::bytes(messages, TOKENS), |bytes| {
        let ty = match protobuf::unwrap(&bytes.0) {
            Ok(found) => types.iter().find(|ty| ty.get().name == found.kind),
            Err(_) => None,
        };
        let ty = *ty.unwrap_or(&types[bytes.0.len() % types.len()]);
        let _ = protobuf::decode_message(&bytes.0, ty);
        if let Ok(object) = protobuf::decode(&bytes.0, ty) {
            let written = protobuf::encode(&object, ty).expect("what was read can be written");
            let again = protobuf::decode(&written, ty).expect("what was written can be read");
            assert_eq!(again, object);
        }
    });
}
