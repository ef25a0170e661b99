//! Trees of lines, as clusteradm prints them.

/// A line, and the lines below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    text: String,
    children: Vec<Tree>,
}

impl Tree {
    /// Makes a line without lines below it.
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), children: Vec::new() }
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
}
