//! Formats a plan as a pull request comment.
//!
//! Forges limit the size of a comment, and a plan quotes untrusted text. Therefore the size of the page is
//! bounded, its first lines are escaped, and the rest is in a code block that the content cannot close.

use std::fmt::Write as _;

use super::text::{sections, title, verdict};
use object::text::markdown;
use preview::Preview;

/// The largest page in bytes. GitHub accepts comments of 65,536 characters.
const MAX_BYTES: usize = 60_000;
/// The longest first line, in characters.
const HEAD: usize = 800;

/// Formats a plan as Markdown; `report` describes the report that the plan is based on.
pub(super) fn page(preview: &Preview, report: Option<&str>) -> String {
    let mut page = format!(
        "### Plan of {}\n\n**{}**\n\nHash: `{}`\n",
        markdown(&title(preview), HEAD),
        markdown(&verdict(preview), HEAD),
        preview.hash()
    );
    if let Some(report) = report {
        let _ = writeln!(page, "\nReport: {}", markdown(report, HEAD));
    }
    let is_short = |page: &String, more: usize| page.len() + more < MAX_BYTES;
    for (heading, lines) in sections(preview) {
        if !is_short(&page, 200) {
            page.push_str("\nThe rest does not fit here; `wheelwright plan` prints it.\n");
            break;
        }
        let _ = write!(page, "\n<details><summary>{heading}</summary>\n\n```text\n");
        let mut left = 0;
        for line in lines {
            if left > 0 || !is_short(&page, line.len() + 200) {
                left += 1;
                continue;
            }
            // A run of backticks would close the block.
            let _ = writeln!(page, "{}", line.replace("```", "'''"));
        }
        if left > 0 {
            let _ = writeln!(page, "and {left} more lines");
        }
        page.push_str("```\n\n</details>\n");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::example;
    use super::*;

    #[test]
    fn a_foreign_text_cannot_leave_the_block_or_mention_people() {
        let mut preview = example();
        preview.objects[0].fields[0].after = Some("```\n# Approved @everyone".into());
        preview.refused = Some("<img src=x> @everyone [click](https://evil.example)".into());
        preview.verdict = preview::Verdict::Refused;
        let page = page(&preview, None);
        let fences = page.lines().filter(|line| line.starts_with("```")).count();
        assert_eq!(fences, 2 * page.matches("<details>").count(), "{page}");
        assert!(!page.contains("<img") && !page.contains("**Refused: @"), "{page}");
        assert!(page.contains("&#64;everyone \\[click\\]"), "{page}");
    }

    #[test]
    fn a_page_fits_into_a_comment() {
        let mut preview = example();
        let object = preview.objects[0].clone();
        preview.objects = vec![object; 10_000];
        let work = preview.works[0].clone();
        preview.works = vec![work; 3000];
        let page = page(&preview, None);
        assert!(page.len() <= MAX_BYTES, "{}", page.len());
        assert!(page.contains("more lines") || page.contains("does not fit"), "{page}");
    }
}
