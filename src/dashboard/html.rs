//! The parts of HTML that pages have in common. Pages escape every text of the hub.

use std::fmt::Write as _;

/// Returns a document; `title` is escaped.
pub(super) fn document(title: &str, head: &str, header: &str, main: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{} – Wheelwright</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"stylesheet\" href=\"style.css\">\n\
         <link rel=\"icon\" href=\"data:,\">\n{head}\n</head>\n<body>\n\
         <header><h1>Wheelwright</h1>{header}</header>\n{main}\n</body>\n</html>\n",
        escape(title)
    )
}

/// Writes the form of a button: its verb, what it is about, and an approval.
pub(super) fn button(html: &mut String, verb: &str, label: &str, subject: &str, token: &str) {
    // The label identifies the button, so that the script finds the focused button again after an update.
    let id = format!("{verb} {subject} {token}");
    let _ = write!(
        html,
        "<form method=\"post\" action=\"act\"><input type=\"hidden\" name=\"verb\" value=\"{verb}\">\
         <input type=\"hidden\" name=\"subject\" value=\"{}\"><input type=\"hidden\" name=\"token\" value=\"{}\">\
         <button id=\"{}\">{}</button></form>",
        escape(subject),
        escape(token),
        escape(&id.trim_end().replace(' ', ":")),
        escape(label)
    );
}

/// Returns a link to the page of a cluster. `of` is what the cell around it is about, which tells the links
/// of a page apart, so that the script finds the focused one again after an update.
pub(super) fn cluster_link(of: &str, cluster: &str) -> String {
    let (of, cluster) = (escape(of), escape(cluster));
    format!("<a id=\"cluster:{of}:{cluster}\" href=\"cluster?of={cluster}\">{cluster}</a>")
}

/// Writes the first texts of a list, and the number of the others; nothing for none.
pub(super) fn list(html: &mut String, texts: &[String], more: usize) {
    if texts.is_empty() {
        return;
    }
    *html += "<ul>";
    for text in texts {
        let _ = write!(html, "<li>{}</li>", escape(text));
    }
    if more > 0 {
        let _ = write!(html, "<li>and {more} more</li>");
    }
    *html += "</ul>";
}

/// Escapes text for HTML elements and quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            // An event of the stream holds none.
            '\r' => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}
