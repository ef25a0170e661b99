//! Trees of lines, as clusteradm prints them.

use object::text::plain;

/// Limit of the characters of a line: a message of a condition and more.
const LONGEST: usize = 5_000;

/// A line, and the lines below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    text: String,
    children: Vec<Tree>,
}

impl Tree {
    /// Makes a line without lines below it. Agents and tenants write some of the texts, so control characters
    /// are left out.
    pub(super) fn new(text: impl AsRef<str>) -> Self {
        Self { text: plain(text.as_ref(), LONGEST), children: Vec::new() }
    }

    /// Makes a line `name: value`; an empty value is a dash.
    pub(super) fn field(name: &str, value: &str) -> Self {
        Self::new(format!("{name}: {}", if value.is_empty() { "-" } else { value }))
    }

    /// Adds lines below it.
    #[must_use]
    pub(super) fn with(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        self.children.extend(children);
        self
    }

    /// Returns the text of the tree.
    pub(super) fn print(&self) -> String {
        let mut page = format!("{}\n", self.text);
        self.print_below("", &mut page);
        page
    }

    fn print_below(&self, indent: &str, page: &mut String) {
        for (i, child) in self.children.iter().enumerate() {
            let is_last = i + 1 == self.children.len();
            let (branch, more) = if is_last { ("└── ", "    ") } else { ("├── ", "│   ") };
            page.push_str(&format!("{indent}{branch}{}\n", child.text));
            child.print_below(&format!("{indent}{more}"), page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_branches() {
        let tree = Tree::new("root").with([
            Tree::new("a").with([Tree::field("x", "1"), Tree::field("y", "")]),
            Tree::new("b").with([Tree::new("c")]),
        ]);
        let expected = "root\n├── a\n│   ├── x: 1\n│   └── y: -\n└── b\n    └── c\n";
        assert_eq!(tree.print(), expected);
    }

    #[test]
    fn a_text_does_not_steer_the_terminal() {
        let tree =
            Tree::new("root").with([Tree::field("version", "\u{1b}]52;c;eA==\u{7}\rv1\n└── forged: x")]);
        assert_eq!(tree.print(), "root\n└── version: ]52;c;eA== v1 └── forged: x\n");
    }
}
