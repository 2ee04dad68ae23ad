use super::*;
use crate::schema::samples::object;
use crate::schema::{StructRef, schema};
use proptest::prelude::*;
use serde_json::{Value, json};

fn of(package: &str, name: &str) -> StructRef {
    schema().get(package, "v1", name).unwrap()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(|c| !c.is_whitespace()).collect();
    digits
        .chunks(2)
        .map(|two| u8::from_str_radix(&two.iter().collect::<String>(), 16).unwrap())
        .collect()
}

#[track_caller]
fn same(package: &str, name: &str, value: &Value, hex: &str) {
    let written = encode_message(value, of(package, name)).unwrap();
    assert_eq!(written, bytes(hex));
    assert_eq!(&decode_message(&written, of(package, name)).unwrap(), value);
}

#[test]
fn scalars_are_written_even_if_zero_and_pointers_only_if_set() {
    // name, hostPort, containerPort, protocol, hostIP
    same(
        "core",
        "ContainerPort",
        &json!({"containerPort": 80}),
        "0a00 1000 1850 2200 2a00",
    );
    // name, value; the pointer valueFrom is not there
    same("core", "EnvVar", &json!({"name": "A"}), "0a0141 1200");
    same(
        "core",
        "EnvVar",
        &json!({"name": "A", "valueFrom": {}}),
        "0a0141 1200 1a00",
    );
}

#[test]
fn negative_numbers_take_ten_bytes() {
    let value = json!({"revision": -1, "data": null, "metadata": {}});
    let written = encode_message(&value, of("apps", "ControllerRevision")).unwrap();
    assert!(
        written.ends_with(&bytes("1200 18ffffffffffffffffff01")),
        "{written:x?}"
    );
    assert_eq!(
        decode_message(&written, of("apps", "ControllerRevision")).unwrap(),
        value
    );
}

#[test]
fn map_keys_are_sorted_and_entries_complete() {
    let value = json!({"matchLabels": {"b": "", "a": "1"}});
    same(
        "meta",
        "LabelSelector",
        &value,
        "0a06 0a0161 120131 0a05 0a0162 1200",
    );
}

#[test]
fn numbers_in_lists_are_not_packed_but_read_either_way() {
    let value = json!({"operator": "In", "values": [1, 300]});
    same(
        "core",
        "ContainerRestartRuleOnExitCodes",
        &value,
        "0a02496e 1001 10ac02",
    );
    let packed = bytes("0a02496e 1203 01ac02");
    assert_eq!(
        decode_message(&packed, of("core", "ContainerRestartRuleOnExitCodes")).unwrap(),
        value
    );
}

#[test]
fn moments_are_seconds_and_nanoseconds() {
    let value = json!({"startedAt": "1970-01-01T00:02:03Z"});
    same("core", "ContainerStateRunning", &value, "0a04 087b 1000");
    same(
        "core",
        "ContainerStateRunning",
        &json!({"startedAt": null}),
        "0a00",
    );
    let value = json!({"renewTime": "1970-01-01T00:00:01.000005Z"});
    same("coordination", "LeaseSpec", &value, "2205 0801 108827");
}

#[test]
fn numbers_or_text_say_which_they_are() {
    let number = json!({"port": 8080});
    same("core", "TCPSocketAction", &number, "0a07 0800 10903f 1a00 1200");
    let text = json!({"port": "web"});
    same("core", "TCPSocketAction", &text, "0a09 0801 1000 1a03776562 1200");
}

#[test]
fn quantities_and_bytes_keep_their_text() {
    let limits = json!({"limits": {"cpu": "100m"}});
    same(
        "core",
        "ResourceRequirements",
        &limits,
        "0a0d 0a03637075 1206 0a043130306d",
    );
    let secret = json!({"metadata": {}, "data": {"k": "/w=="}});
    let written = encode_message(&secret, of("core", "Secret")).unwrap();
    assert!(
        written.ends_with(&bytes("1206 0a016b 1201ff 1a00")),
        "{written:x?}"
    );
}

#[test]
fn inline_structs_are_messages_of_their_own() {
    let volume = json!({"name": "v", "emptyDir": {}});
    // VolumeSource is field 2, emptyDir its field 2, with the text `medium` as field 1
    same("core", "Volume", &volume, "0a0176 1204 1202 0a00");
}

#[test]
fn schemas_or_something_else_are_told_apart() {
    for (name, value) in [
        ("additionalProperties", json!(true)),
        ("additionalProperties", json!(false)),
        ("additionalProperties", json!({"type": "string"})),
        ("items", json!({"type": "string"})),
        ("items", json!([{"type": "string"}, {}])),
        ("dependencies", json!({"a": ["b"], "c": {"type": "object"}})),
        ("default", json!({"any": [1, null, 1.5]})),
    ] {
        let schema_value = json!({ name: value });
        let written = encode_message(&schema_value, of("apiextensions", "JSONSchemaProps")).unwrap();
        assert_eq!(
            decode_message(&written, of("apiextensions", "JSONSchemaProps")).unwrap(),
            schema_value
        );
    }
}

#[test]
fn an_envelope_says_the_kind_and_keeps_the_rest_empty() {
    let object = json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {}, "spec": {}});
    let written = encode(&object, of("coordination", "Lease")).unwrap();
    assert!(written.starts_with(b"k8s\0\x0a\x1f\x0a\x16coordination.k8s.io/v1\x12\x05Lease\x12"));
    assert!(written.ends_with(&[0x1a, 0, 0x22, 0]));
    let opened = unwrap(&written).unwrap();
    assert_eq!(
        (opened.kind.as_str(), opened.api_version.as_str()),
        ("Lease", "coordination.k8s.io/v1")
    );
    assert_eq!(decode(&written, of("coordination", "Lease")).unwrap(), object);
}

#[test]
fn a_list_item_by_item_is_the_list_as_a_whole() {
    let pod = |name: &str| json!({"metadata": {"name": name}, "spec": {"containers": null}, "status": {}});
    let items = vec![pod("a"), pod("b"), pod(&"c".repeat(300))];
    let metadata = json!({"resourceVersion": "5"});
    let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items});
    let whole = encode(&list, of("core", "PodList")).unwrap();
    let one_by_one = encode_list("v1", "PodList", &metadata, &items, of("core", "Pod")).unwrap();
    assert_eq!(one_by_one, whole);
    assert_eq!(decode(&whole, of("core", "PodList")).unwrap(), list);
}

#[test]
fn every_list_has_its_metadata_first_and_its_items_second() {
    for kind in crate::kinds::builtin()
        .all()
        .iter()
        .filter(|kind| kind.allows("list"))
    {
        let list = schema()
            .kind(&kind.group, &kind.version, &kind.list_kind())
            .unwrap()
            .get();
        assert_eq!(
            (list.numbered(1).unwrap().name, list.numbered(2).unwrap().name),
            ("metadata", "items")
        );
    }
}

#[test]
fn what_is_no_envelope_is_refused_in_known_words() {
    assert_eq!(unwrap(b"").unwrap_err().to_string(), "empty data");
    assert_eq!(unwrap(b"k8s\0").unwrap_err().to_string(), "empty body");
    let words = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
    assert_eq!(unwrap(b"{}").unwrap_err().to_string(), words);
}

#[test]
fn a_watch_frame_is_a_length_and_an_event() {
    let frame = watch_event("ADDED", b"k8s\0xyz");
    let (length, event) = frame.split_first_chunk::<4>().unwrap();
    assert_eq!(u32::from_be_bytes(*length) as usize, event.len());
    assert_eq!(event, b"\x0a\x05ADDED\x12\x09\x0a\x07k8s\0xyz");
}

#[test]
fn an_event_read_back_holds_the_object() {
    let object = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "code": 410});
    let inner = encode(&object, of("meta", "Status")).unwrap();
    let frame = watch_event("ERROR", &inner);
    let event = decode_message(&frame[4..], of("meta", "WatchEvent")).unwrap();
    assert_eq!(event, json!({"type": "ERROR", "object": object}));
}

#[test]
fn fields_that_are_not_known_are_skipped() {
    // numbers 100 to 103 with each wire type, then the name
    let unknown = bytes("a00601 a906 0102030405060708 b20603616263 bd06 01020304 0a0141 1200");
    assert_eq!(
        decode_message(&unknown, of("core", "EnvVar")).unwrap(),
        json!({"name": "A"})
    );
}

#[test]
fn a_message_in_pieces_is_merged() {
    let pieces = bytes("0a0141 1a02 1200 1a02 0a00");
    let value = decode_message(&pieces, of("core", "EnvVar")).unwrap();
    assert_eq!(value["valueFrom"].as_object().unwrap().len(), 2, "{value}");
}

#[test]
fn broken_messages_are_refused() {
    let env = of("core", "EnvVar");
    let error = |hex: &str| decode_message(&bytes(hex), env).unwrap_err();
    assert_eq!(error("0a05 41"), ProtobufDecodeError::Truncated);
    assert_eq!(error("0affffffffffffffffff01"), ProtobufDecodeError::Truncated);
    assert_eq!(error("0affffffffffffffffffff01"), ProtobufDecodeError::Overflow);
    assert_eq!(
        error("08 01"),
        ProtobufDecodeError::WireType {
            wire: 0,
            field: "name"
        }
    );
    assert_eq!(
        error("0b"),
        ProtobufDecodeError::WireType {
            wire: 3,
            field: "name"
        }
    );
    assert!(matches!(error("00"), ProtobufDecodeError::Tag { .. }));
}

fn nest(writer: &mut wire::Writer, depth: usize) {
    if depth > 0 {
        let inner = |writer: &mut wire::Writer| {
            nest(writer, depth - 1);
            Ok::<(), ProtobufEncodeError>(())
        };
        writer.message(28, inner).unwrap();
    }
}

#[test]
fn nesting_has_an_end() {
    let ty = of("apiextensions", "JSONSchemaProps");
    // `not`, field 28, within itself
    let mut writer = wire::Writer::default();
    nest(&mut writer, 500);
    let message = writer.finish();
    assert_eq!(decode_message(&message, ty), Err(ProtobufDecodeError::Depth));
}

#[test]
fn two_bytes_for_an_object_do_not_fill_the_memory() {
    // a million containers that say nothing
    let message = [0x12, 0x00].repeat(1_000_000);
    assert_eq!(
        decode_message(&message, of("core", "PodSpec")),
        Err(ProtobufDecodeError::TooMany)
    );
}

#[test]
fn what_does_not_fit_is_named_by_its_path() {
    let pod = json!({"spec": {"containers": [{"name": 5}]}});
    let error = encode_message(&pod, of("core", "Pod")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "spec.containers.name: cannot write a number as text"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_written_is_read_back((ty, value) in object()) {
        let written = encode_message(&value, ty).unwrap();
        let read = decode_message(&written, ty).unwrap();
        prop_assert_eq!(&read, &value);
        prop_assert_eq!(encode_message(&read, ty).unwrap(), written);
    }

    #[test]
    fn any_bytes_are_read_or_refused((ty, value) in object(), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut written = encode_message(&value, ty).unwrap();
        for (place, byte) in flips {
            if !written.is_empty() {
                let place = place.index(written.len());
                written[place] = byte;
            }
        }
        let _ = decode_message(&written, ty);
        let _ = unwrap(&written);
    }
}
