//! Checks that pages name only files, tests and hazards that exist.

use std::collections::{BTreeMap, BTreeSet};

use super::{assert_none, list, root, sources};

/// Pages on which all paths are checked.
const PAGES: [&str; 2] = ["ARCHITECTURE.md", "CONTRIBUTING.md"];

/// Returns texts in backticks outside of code blocks, and the targets of links.
fn mentions(page: &str) -> Vec<&str> {
    let outside = page.split("\n```").step_by(2);
    let mut found = Vec::new();
    for text in outside {
        found.extend(text.split('`').skip(1).step_by(2));
        found.extend(text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()));
    }
    found
}

/// Returns true if a text looks like a path of a file or directory in the tree.
fn is_path(text: &str) -> bool {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-*<>{},".contains(c));
    let first = text.split('/').next().unwrap_or_default();
    let is_below = text.contains('/') && root().join(first).exists();
    let is_file =
        [".rs", ".md", ".toml", ".yaml"].iter().any(|end| text.ends_with(end)) && !text.contains('/');
    is_plain && !text.is_empty() && (is_below || is_file)
}

/// Expands `{a,b}` in a path.
fn alternatives(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let (inside, after) = rest.split_once('}').unwrap_or((rest, ""));
    inside.split(',').flat_map(|choice| alternatives(&format!("{before}{choice}{after}"))).collect()
}

/// Returns true if a path matches a pattern with placeholders (`<name>`, `*`).
fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<_>, Vec<_>) =
        (pattern.trim_end_matches('/').split('/').collect(), path.split('/').collect());
    pattern.len() == path.len() && pattern.iter().zip(path).all(|(pattern, part)| part_matches(pattern, part))
}

fn part_matches(pattern: &str, part: &str) -> bool {
    let open = pattern.find(['*', '<']);
    let Some(open) = open else { return pattern == part };
    let close = pattern.rfind(['*', '>']).unwrap_or(open);
    let (head, tail) = (&pattern[..open], &pattern[close + 1..]);
    part.len() > head.len() + tail.len() && part.starts_with(head) && part.ends_with(tail)
}

/// Returns a page's paths that match nothing in the tree.
fn missing(page: &str, tree: &BTreeSet<String>) -> Vec<String> {
    let paths = mentions(page).into_iter().filter(|text| is_path(text)).flat_map(alternatives);
    let exists = |path: &str| {
        let has_name = |there: &str| !path.contains('/') && there.ends_with(&format!("/{path}"));
        tree.iter().any(|there| matches(path, there) || has_name(there))
    };
    paths.filter(|path| !exists(path)).collect()
}

/// Returns every file and directory of the tree.
fn tree() -> BTreeSet<String> {
    let files = list("");
    let directories: Vec<String> =
        files.iter().flat_map(|path| path.match_indices('/').map(|(at, _)| path[..at].to_owned())).collect();
    files.into_iter().chain(directories).collect()
}

/// Returns the anchor that GitHub generates for a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let is_kept = |c: &char| c.is_alphanumeric() || ['-', '_', ' '].contains(c);
    text.chars().filter(is_kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns a page's links to missing files, headings and marks.
fn broken_links(path: &str, pages: &BTreeMap<String, String>, tree: &BTreeSet<String>) -> Vec<String> {
    let page = &pages[path];
    let texts = page.split("\n```").step_by(2);
    let targets = texts.flat_map(|text| text.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
    let own = targets.filter(|target| !target.contains(':'));
    let is_broken = |target: &&str| {
        let (file, mark) = target.split_once('#').unwrap_or((target, ""));
        let mut place: Vec<&str> = path.split('/').collect();
        if !file.is_empty() {
            place.pop();
        }
        for part in file.split('/').filter(|part| !["", "."].contains(part)) {
            if part == ".." {
                place.pop();
            } else {
                place.push(part);
            }
        }
        let place = place.join("/");
        let has = |page: &String| {
            let mut headings = page.lines().filter(|line| line.starts_with('#'));
            headings.any(|heading| anchor(heading) == mark) || page.contains(&format!("id=\"{mark}\""))
        };
        !tree.contains(&place) || !mark.is_empty() && pages.get(&place).is_some_and(|page| !has(page))
    };
    own.filter(is_broken).map(|target| format!("{path}: {target} leads nowhere")).collect()
}

/// Returns the page and the name of each hazard that a source cites, as in `docs/hazards.md#name`.
fn citations(text: &str) -> Vec<(String, &str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let cited = text.split("docs/hazards").skip(1).filter_map(|rest| rest.split_once(".md#"));
    let cited = cited.filter(|(area, _)| area.chars().all(is_name));
    cited
        .map(|(area, rest)| {
            let name = rest.split(|c| !is_name(c)).next().unwrap_or_default();
            (format!("docs/hazards{area}.md"), name)
        })
        .collect()
}

/// Returns texts such as `hazard R13`, which are codes without a page.
fn bare_codes(text: &str) -> Vec<&str> {
    let words: Vec<&str> =
        text.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric())).collect();
    let is_code = |word: &str| {
        let digits = word.trim_start_matches(|c: char| c.is_ascii_uppercase());
        word.len() == digits.len() + 1 && !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
    };
    words
        .windows(2)
        .filter(|pair| ["hazard", "hazards"].contains(&pair[0]) && is_code(pair[1]))
        .map(|pair| pair[1])
        .collect()
}

/// Returns the tests that a page names: backticked words with `_` and no other punctuation.
fn tests_named(page: &str) -> Vec<&str> {
    let is_name = |text: &&str| {
        text.matches('_').count() > 1 && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    mentions(page).into_iter().filter(is_name).collect()
}

#[test]
fn every_path_that_a_page_names_exists() {
    let tree = tree();
    for page in PAGES {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        assert_none(missing(&text, &tree).into_iter().map(|path| format!("{page}: {path} does not exist")));
    }
}

#[test]
fn every_link_between_pages_points_to_a_file_and_a_heading() {
    let tree = tree();
    let pages = tree.iter().filter(|path| path.ends_with(".md"));
    let text = |path: &String| (path.clone(), std::fs::read_to_string(root().join(path)).unwrap());
    let pages: BTreeMap<String, String> = pages.map(text).collect();
    assert_none(pages.keys().flat_map(|path| broken_links(path, &pages, &tree)));
}

#[test]
fn every_hazard_that_is_cited_has_a_row() {
    let has_row = |page: &str, name: &str| {
        let rows = std::fs::read_to_string(root().join(page)).unwrap_or_default();
        rows.contains(&format!("<a id=\"{name}\">"))
    };
    let sources = sources();
    let mut problems = Vec::new();
    for (path, text) in sources.iter().filter(|(path, _)| !path.starts_with("tests/tidy/")) {
        let rowless = citations(text).into_iter().filter(|(page, name)| !has_row(page, name));
        problems.extend(rowless.map(|(page, name)| format!("{path}: {page} has no row {name}")));
        problems.extend(
            bare_codes(text)
                .into_iter()
                .map(|code| format!("{path}: cite docs/hazards.md#… in place of {code}")),
        );
    }
    assert_none(problems);
}

#[test]
fn every_test_that_a_page_names_as_evidence_exists() {
    let sources = sources();
    let pages = [
        ("docs/design/findings.md", 300),
        ("docs/hazards.md", 50),
        ("docs/hazards-clusters.md", 50),
        ("docs/hazards-hub.md", 50),
        ("docs/security.md", 15),
        ("docs/threats.md", 50),
        ("docs/threats-hub.md", 50),
        ("docs/scenarios.md", 20),
        ("docs/scenarios-addons.md", 20),
        ("docs/scenarios-programs.md", 20),
    ];
    for (page, at_least) in pages {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        let tests = tests_named(&text);
        assert!(tests.len() > at_least, "{page} names tests: {tests:?}");
        let is_lost = |name: &&&str| !sources.values().any(|text| text.contains(&format!("fn {name}(")));
        assert_none(tests.iter().filter(is_lost).map(|name| format!("{page}: no test is named {name}")));
    }
}

#[test]
fn missing_paths_and_citations_without_a_row_are_found() {
    let tree: BTreeSet<String> = ["src/git/push.rs", "src/cli", "src/git"].map(str::to_owned).into();
    let check = |page, expected: &[&str]| assert_eq!(missing(page, &tree), expected, "{page}");
    check(
        "See `src/git/` and `src/git/p*.rs`, `src/<module>/push.rs`, [cli](src/cli#x), `push.rs::Push`, `make test`.",
        &[],
    );
    check(
        "`src/git/pull.rs` `src/{git,pki}/push.rs` [x](src/cli/x.rs)",
        &["src/git/pull.rs", "src/pki/push.rs", "src/cli/x.rs"],
    );
    check("a\n```\n`src/none.rs`\n```\nb `src/nothing/*`", &["src/nothing/*"]);
    let pages = [
        ("a.md", "# `A b`: c\n<a id=\"m\">"),
        ("docs/b.md", "[x](../a.md#a-b-c) [x](../a.md#m) [x](c.md) [x](../a.md#d) [x](#e) [x](https://c)"),
    ];
    let pages: BTreeMap<_, _> = pages.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
    let tree = pages.keys().cloned().collect();
    let broken = ["c.md", "../a.md#d", "#e"].map(|target| format!("docs/b.md: {target} leads nowhere"));
    assert_eq!(broken_links("docs/b.md", &pages, &tree), broken);
    let cited = citations("// docs/hazards.md#csr-prefix. docs/hazards, and docs/hazards-hub.md#r1");
    let pages = ["docs/hazards.md", "docs/hazards-hub.md"].map(String::from);
    assert_eq!(cited, pages.into_iter().zip(["csr-prefix", "r1"]).collect::<Vec<_>>());
    assert_eq!(bare_codes("(hazard R13) hazards W6, (hazard of 3) hazard Rx"), ["R13", "W6"]);
    assert_eq!(tests_named("`a_test_here` `a_type` `fn x_y_z()`"), ["a_test_here"]);
}
