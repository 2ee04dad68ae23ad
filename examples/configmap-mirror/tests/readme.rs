//! The first example in the README of kubecontroller must be this program.

const PROGRAM: &str = include_str!("../src/main.rs");
const README: &str = include_str!("../../../crates/kubecontroller/README.md");

#[test]
fn readme_contains_the_program() {
    let code = README
        .split("```")
        .find_map(|part| part.strip_prefix("rust,no_run\n"))
        .unwrap();
    assert_eq!(code, PROGRAM);
}

#[test]
fn program_has_at_most_60_lines() {
    assert!(PROGRAM.lines().count() <= 60);
}
