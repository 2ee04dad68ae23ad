//! File I/O of the node agent blocks no thread of the async runtime: files that use `std::fs` contain no async code. Async code calls
//! their functions through `run_blocking`, the only place that starts blocking work.

use std::{io, path::Path};

use crate::source_files;

/// Sources that the rule is for.
const SOURCES: &str = "crates/node/src/";

/// The only file that starts blocking work.
const BLOCKING: &str = "crates/node/src/blocking.rs";

/// Files and directories with both, and why that is safe.
const EXEMPT: [(&str, &str); 2] = [
    (
        "crates/node/src/volumes/plugins/",
        "`new_mounter` is async and reads the API; `set_up` is called on blocking threads",
    ),
    (
        "crates/node/src/runtime/network_namespace.rs",
        "the file is opened on a thread of its own, which changes its namespace",
    ),
];

/// Returns one line for each file below `paths` that breaks the rule.
pub(crate) fn complaints(root: &Path, paths: &[String]) -> io::Result<Vec<String>> {
    let texts = source_files::read_all(root, paths)?;
    Ok(texts
        .iter()
        .filter(|(name, _)| source_files::is_rust(name) && name.starts_with(SOURCES))
        .filter_map(|(name, text)| complaint(name, text))
        .collect())
}

fn complaint(name: &str, text: &str) -> Option<String> {
    if name.contains("/tests/") || name.ends_with("/tests.rs") {
        return None;
    }
    let code = without_tests(text);
    if code.contains("spawn_blocking") && name != BLOCKING {
        return Some(format!(
            "{name}: starts blocking work itself; use `run_blocking` of {BLOCKING}"
        ));
    }
    let is_exempt = EXEMPT.iter().any(|(exempt, _)| name.starts_with(exempt));
    if is_exempt || !is_async(code) || !does_file_io(code) {
        return None;
    }
    Some(format!(
        "{name}: mixes `std::fs` and async code; move file I/O to a file of its own and call it through `run_blocking`"
    ))
}

/// The part before the module with unit tests.
fn without_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod tests {")
        .map_or(text, |(code, _)| code)
}

fn is_async(code: &str) -> bool {
    ["async fn ", "async move ", "async {", ".await"]
        .iter()
        .any(|word| code.contains(word))
}

/// Whether the code uses `std::fs`, or asks the file system through a path.
fn does_file_io(code: &str) -> bool {
    let asks_path = [".exists()", ".is_dir()", ".is_file()", ".canonicalize()"];
    code.contains("std::fs") || asks_path.iter().any(|call| code.contains(call)) || imports_std_fs(code)
}

/// Whether a `use std::{...}` has `fs` or something of it. `os::unix::fs` has only traits and types.
fn imports_std_fs(code: &str) -> bool {
    code.split("use std::{").skip(1).any(|rest| {
        let list = rest.split_once("};").map_or(rest, |(list, _)| list);
        let mut depth = 0_u32;
        let mut item = String::new();
        for letter in list.chars().chain([',']) {
            match letter {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                ',' if depth == 0 => {
                    let name = item.trim();
                    if name == "fs" || name.starts_with("fs::") {
                        return true;
                    }
                    item.clear();
                    continue;
                }
                _ => {}
            }
            item.push(letter);
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "crates/node/src/pod/x.rs";
    const ASYNC: &str = "async fn f() { g().await }\n";

    #[test]
    fn rejects_file_io_beside_async_code() {
        for import in [
            "use std::fs;\n",
            "use std::{fs, io};\n",
            "use std::{\n    collections::BTreeMap,\n    fs::File,\n};\n",
            "fn h() { std::fs::read(\"x\") }\n",
            "fn h(path: &Path) -> bool { path.exists() }\n",
        ] {
            assert!(complaint(NAME, &format!("{import}{ASYNC}")).is_some(), "{import}");
            assert_eq!(complaint(NAME, import), None, "{import}");
        }
    }

    #[test]
    fn allows_async_file_io_and_file_io_in_tests() {
        for import in [
            "use tokio::fs;\n",
            "use std::{io, os::unix::{fs::PermissionsExt, net::UnixListener}, path::Path};\n",
            "use rustix::fs::stat;\n",
        ] {
            assert_eq!(complaint(NAME, &format!("{import}{ASYNC}")), None, "{import}");
        }
        let tested = format!("{ASYNC}#[cfg(test)]\nmod tests {{\n    use std::fs;\n}}\n");
        assert_eq!(complaint(NAME, &tested), None);
        assert_eq!(
            complaint("crates/node/src/pod/tests/x.rs", "use std::fs;\nasync fn f() {}"),
            None
        );
    }

    #[test]
    fn only_one_file_starts_blocking_work() {
        let code = "fn f() { spawn_blocking(g); }\n";
        assert!(complaint(NAME, code).is_some());
        assert_eq!(complaint(BLOCKING, code), None);
    }
}
