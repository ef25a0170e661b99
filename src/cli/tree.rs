//! Trees of lines, in the format of clusteradm.

use object::text::plain;

/// The longest line, in characters. It is longer than the message of a condition.
const LONGEST: usize = 5_000;

/// A line with child lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    text: String,
    children: Vec<Tree>,
}

impl Tree {
    /// Returns a line without children. Agents and tenants write some of the texts, so control characters are
    /// removed.
    pub(super) fn new(text: impl AsRef<str>) -> Self {
        Self { text: plain(text.as_ref(), LONGEST), children: Vec::new() }
    }

    /// Returns a line `name: value`; an empty value is shown as a dash.
    pub(super) fn field(name: &str, value: &str) -> Self {
        Self::new(format!("{name}: {}", if value.is_empty() { "-" } else { value }))
    }

    /// Adds child lines.
    #[must_use]
    pub(super) fn with(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        self.children.extend(children);
        self
    }

    /// Formats the tree.
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
    fn a_text_does_not_control_the_terminal() {
        let tree =
            Tree::new("root").with([Tree::field("version", "\u{1b}]52;c;eA==\u{7}\rv1\n└── forged: x")]);
        assert_eq!(tree.print(), "root\n└── version: ]52;c;eA== v1 └── forged: x\n");
    }
}
