//! The first example of the framework's README is this program.

const PROGRAM: &str = include_str!("../src/main.rs");
const README: &str = include_str!("../../../crates/kubecontroller/README.md");

#[test]
fn the_readme_shows_this_program() {
    let code = README
        .split("```")
        .find_map(|part| part.strip_prefix("rust,no_run\n"))
        .unwrap();
    assert_eq!(code, PROGRAM);
}

#[test]
fn a_first_program_is_short() {
    assert!(PROGRAM.lines().count() < 60);
}
