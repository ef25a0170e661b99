//! `.helmignore` (Helm's `pkg/ignore`).

use regex::Regex;

/// The rules of a `.helmignore`.
#[derive(Default)]
pub(super) struct Rules(Vec<Rule>);

struct Rule {
    pattern: Regex,
    negates: bool,
    only_directories: bool,
    /// True to match the whole path instead of its last part.
    whole_path: bool,
}

impl Rules {
    /// Parses the rules. Helm adds a rule that ignores dot files in `templates/`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        for line in text.trim_start_matches('\u{feff}').lines().chain(["templates/.?*"]) {
            rules.extend(Rule::parse(line.trim())?);
        }
        Ok(Self(rules))
    }

    /// Returns true if a file or one of its directories is ignored.
    pub(super) fn ignore(&self, path: &str) -> bool {
        let directories = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        directories.into_iter().any(|directory| self.matches(directory, true)) || self.matches(path, false)
    }

    fn matches(&self, path: &str, is_directory: bool) -> bool {
        for rule in &self.0 {
            let name = if rule.whole_path { path } else { path.rsplit('/').next().unwrap_or(path) };
            let matches = rule.pattern.is_match(name);
            if rule.negates {
                if (rule.only_directories && !is_directory) || !matches {
                    return true;
                }
                continue;
            }
            if matches && (!rule.only_directories || is_directory) {
                return true;
            }
        }
        false
    }
}

impl Rule {
    fn parse(line: &str) -> Result<Option<Self>, String> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        if line.contains("**") {
            return Err("double-star (**) syntax is not supported".into());
        }
        let (negates, line) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let (only_directories, line) = line.strip_suffix('/').map_or((false, line), |rest| (true, rest));
        let whole_path = line.contains('/');
        let line = line.strip_prefix('/').unwrap_or(line);
        Ok(Some(Self { pattern: path_pattern(line)?, negates, only_directories, whole_path }))
    }
}

/// Compiles a pattern of `filepath.Match`.
fn path_pattern(pattern: &str) -> Result<Regex, String> {
    let mut regex = String::from("^");
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '*' => regex.push_str("[^/]*"),
            '?' => regex.push_str("[^/]"),
            '[' => {
                regex.push('[');
                for c in chars.by_ref() {
                    match c {
                        '[' | '&' | '~' => regex.extend(['\\', c]),
                        c => regex.push(c),
                    }
                    if c == ']' {
                        break;
                    }
                }
            }
            '\\' => regex.push_str(&regex::escape(&chars.next().unwrap_or('\\').to_string())),
            c => regex.push_str(&regex::escape(&c.to_string())),
        }
    }
    regex.push('$');
    Regex::new(&regex).map_err(|_| "syntax error in pattern".to_owned())
}
