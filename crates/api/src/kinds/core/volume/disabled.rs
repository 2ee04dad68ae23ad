//! Fields of volumes that belong to features which are off: who owns the files of a volume, and the mode of an
//! empty directory.

use serde_json::Value;

use crate::rules::{Tree, TreeMut};

/// The sources that are files, in pods and in projected volumes.
const FILES: [&str; 4] = ["secret", "configMap", "downwardAPI", "projected"];

/// Takes out of the volumes of a pod spec what cannot be used, unless the old spec used it already.
pub(crate) fn drop_disabled(spec: &mut Value, old: Option<&Value>) {
    let before = old.map_or(&[][..], |old| old.items("volumes"));
    let keeps_mode = before.iter().any(|volume| volume.at("emptyDir").has("mode"));
    let keeps_users = before.iter().any(has_users);
    for volume in spec.items_mut("volumes") {
        if !keeps_mode && let Some(directory) = volume.at_mut("emptyDir") {
            directory.remove("mode");
        }
        if !keeps_users {
            drop_users(volume);
        }
    }
}

fn has_users(volume: &Value) -> bool {
    let has_user = |file: &Value| file.has("user");
    FILES.iter().map(|name| volume.at(name)).any(|source| {
        source.has("defaultUser")
            || source.items("items").iter().any(has_user)
            || source.items("sources").iter().any(|part| {
                part.as_object().is_some_and(|parts| {
                    parts
                        .values()
                        .any(|part| has_user(part) || part.items("items").iter().any(has_user))
                })
            })
    })
}

fn drop_users(volume: &mut Value) {
    for name in FILES {
        let Some(source) = volume.at_mut(name) else {
            continue;
        };
        source.remove("defaultUser");
        for item in source.items_mut("items") {
            item.remove("user");
        }
        for part in source.items_mut("sources") {
            let Value::Object(parts) = part else { continue };
            for part in parts.values_mut() {
                part.remove("user");
                for item in part.items_mut("items") {
                    item.remove("user");
                }
            }
        }
    }
}
