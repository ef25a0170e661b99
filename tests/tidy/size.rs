//! Files stay short enough to be read at once.

use super::{assert_none, sources};

/// Lines a file may have.
const LINES: usize = 400;
/// Files that are longer, and why that is better than two files.
const LONGER: &[(&str, &str)] = &[
    (
        "crates/api/src/cluster/v1beta1/placement.rs",
        "one kind a file, and its fields carry their documentation",
    ),
    ("crates/engine/src/rollout/oracle.rs", "the promises of a rollout are read side by side"),
    ("crates/reconcile/src/plan.rs", "the words of a plan are read side by side"),
    ("tests/ocm/rows.rs", "each row is a difference from OCM, and they are switched one by one"),
];

fn too_long(path: &str, text: &str, longer: &[(&str, &str)]) -> Option<String> {
    let lines = text.lines().count();
    let is_listed = longer.iter().any(|(listed, _)| *listed == path);
    match (lines > LINES, is_listed) {
        (true, false) => Some(format!("{path} has {lines} lines, more than {LINES}; divide it")),
        (false, true) => {
            Some(format!("{path} has {lines} lines; take it off the list in tests/tidy/size.rs"))
        }
        (true, true) | (false, false) => None,
    }
}

#[test]
fn no_file_is_long() {
    assert_none(sources().iter().filter_map(|(path, text)| too_long(path, text, LONGER)));
}

#[test]
fn a_long_file_is_found_and_so_is_a_reason_that_is_no_longer_one() {
    let longer = [("b.rs", "one table")];
    let check = |path, lines| too_long(path, &"x\n".repeat(lines), &longer).is_some();
    assert!(check("a.rs", LINES + 1) && !check("a.rs", LINES));
    assert!(check("b.rs", LINES) && !check("b.rs", LINES + 1));
}
