//! Formats numbers with nouns for messages.

use std::fmt::Display;

/// Returns a number with its noun, such as "1 cluster" or "2 clusters".
pub fn counted(number: impl Display, noun: &str) -> String {
    let number = number.to_string();
    let end = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_has_no_plural() {
        assert_eq!(
            [0, 1, 2, 11].map(|n| counted(n, "cluster")),
            ["0 clusters", "1 cluster", "2 clusters", "11 clusters"]
        );
    }
}
