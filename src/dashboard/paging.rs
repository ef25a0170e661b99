//! Lists that are shown page by page, and their addresses.

use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The number of rows per page.
pub(super) const ROWS: usize = 50;

/// The characters to percent-encode in a query value. Allowed characters that are common in names are excluded.
const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'/');

/// A page of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    number: usize,
    pages: usize,
}

impl Page {
    /// Returns the page with a number, starting at 1, of a list; the nearest one if there is no such page.
    pub(super) fn new(number: usize, rows: usize) -> Self {
        let pages = rows.div_ceil(ROWS).max(1);
        Self { number: number.clamp(1, pages), pages }
    }

    /// Returns the rows of the page.
    pub(super) fn rows<T>(self, all: &[T]) -> impl Iterator<Item = &T> {
        all.iter().skip((self.number - 1) * ROWS).take(ROWS)
    }

    /// Returns links to the previous and next page, if there are several. `fields` are the fields of the address.
    pub(super) fn links(self, path: &str, fields: &[(&str, &str)]) -> Markup {
        let Self { number, pages } = self;
        html! {
            @if pages > 1 {
                nav .paging aria-label="Pages" {
                    @if number > 1 { a .btn href=(address(path, fields, number - 1)) rel="prev" { "Previous" } }
                    span .dim { "Page " (number) " of " (pages) }
                    @if number < pages { a .btn href=(address(path, fields, number + 1)) rel="next" { "Next" } }
                }
            }
        }
    }
}

/// Returns the address of a page of a list. Empty fields are left out.
pub(super) fn address(path: &str, fields: &[(&str, &str)], page: usize) -> String {
    let number = if page > 1 { page.to_string() } else { String::new() };
    let query: Vec<_> = fields
        .iter()
        .chain(&[("page", number.as_str())])
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={}", encoded(value)))
        .collect();
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{path}{mark}{}", query.join("&"))
}

/// Percent-encodes a query value.
pub(super) fn encoded(value: &str) -> String {
    utf8_percent_encode(value, VALUE).to_string()
}
