//! Parses selectors in text form: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`.

use std::str::FromStr;

use super::{InvalidSelector, Operator, Requirement, Selector};

impl FromStr for Selector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        let mut tokens = Tokens { rest: text };
        let mut requirements = Vec::new();
        while tokens.peek() != "" {
            if is_symbol(tokens.peek()) && tokens.peek() != "!" {
                return expected(tokens.peek(), "!, identifier, or 'end of string'");
            }
            requirements.push(tokens.requirement()?);
            match tokens.next() {
                "" => break,
                "," if !is_identifier(tokens.peek()) && tokens.peek() != "!" => {
                    return expected(tokens.peek(), "identifier after ','");
                }
                "," => {}
                other => return expected(other, "',' or 'end of string'"),
            }
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }
}

fn expected<T>(found: &str, what: &str) -> Result<T, InvalidSelector> {
    Err(InvalidSelector(format!("found '{found}', expected: {what}")))
}

/// The remaining text. The end is an empty token.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn next(&mut self) -> &'a str {
        let (token, rest) = split_token(self.rest);
        self.rest = rest;
        token
    }

    fn peek(&self) -> &'a str {
        split_token(self.rest).0
    }

    fn requirement(&mut self) -> Result<Requirement, InvalidSelector> {
        let first = self.next();
        let (is_negated, key) = if first == "!" { (true, self.next()) } else { (false, first) };
        if !is_identifier(key) {
            return expected(key, "identifier");
        }
        match (is_negated, self.peek()) {
            (true, _) => Requirement::new(key, Operator::DoesNotExist, Vec::new()),
            (false, "" | ",") => Requirement::new(key, Operator::Exists, Vec::new()),
            (false, _) => {
                let operator = match self.next() {
                    "=" | "==" => Operator::In,
                    "!=" => Operator::NotIn,
                    ">" => Operator::GreaterThan,
                    "<" => Operator::LessThan,
                    "in" => return Requirement::new(key, Operator::In, self.list()?),
                    "notin" => return Requirement::new(key, Operator::NotIn, self.list()?),
                    other => return expected(other, "in, notin, =, ==, !=, gt, lt"),
                };
                Requirement::new(key, operator, vec![self.value()?])
            }
        }
    }

    /// Parses the value after an operator. It may be omitted before a comma and at the end, which means an empty
    /// value.
    fn value(&mut self) -> Result<String, InvalidSelector> {
        match self.peek() {
            "" | "," => Ok(String::new()),
            value if is_identifier(value) => Ok(self.next().to_owned()),
            other => expected(other, "identifier"),
        }
    }

    /// Parses the values in parentheses; an omitted value is empty.
    fn list(&mut self) -> Result<Vec<String>, InvalidSelector> {
        let open = self.next();
        if open != "(" {
            return expected(open, "'('");
        }
        let mut values = Vec::new();
        loop {
            let has_value = is_identifier(self.peek());
            values.push(if has_value { self.next().to_owned() } else { String::new() });
            match self.next() {
                ")" => return Ok(values),
                "," => {}
                other => return expected(other, "',' or ')'"),
            }
        }
    }
}

/// Splits the first token off a text.
fn split_token(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let symbols = text.len() - text.trim_start_matches(is_operator_byte).len();
    let end = match (text.chars().next(), symbols) {
        (Some('(' | ')' | ','), _) => 1,
        (_, 0) => text.find(|c: char| c.is_whitespace() || is_special(c)).unwrap_or(text.len()),
        (_, symbols) => {
            ["==", "!="].iter().find(|op| text.starts_with(**op)).map_or(symbols.min(1), |op| op.len())
        }
    };
    text.split_at(end)
}

fn is_operator_byte(c: char) -> bool {
    matches!(c, '=' | '!' | '<' | '>')
}

fn is_special(c: char) -> bool {
    is_operator_byte(c) || matches!(c, '(' | ')' | ',')
}

fn is_symbol(token: &str) -> bool {
    token.starts_with(is_special)
}

fn is_identifier(token: &str) -> bool {
    !token.is_empty() && !is_symbol(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_selects_as_in_kubectl() {
        let labels = [("a", "b"), ("n", "5"), ("x.io/y", ""), ("in", "notin")];
        let check = |selector: &str, selected: bool| {
            let value = |key: &str| labels.iter().find(|(k, _)| *k == key).map(|(_, value)| *value);
            let parsed: Selector = selector.parse().unwrap();
            assert_eq!(parsed.matches_with(value), selected, "{selector}");
            assert_eq!(parsed.to_string().parse(), Ok(parsed), "{selector}");
        };
        for selected in [
            "",
            " ",
            "a",
            "a=b",
            "a==b",
            "a = b",
            "a!=c",
            "z!=c",
            "!z",
            "! z",
            "a in (b,c)",
            "a in(b)",
            "a in ( b , c )",
            "a notin (c)",
            "z notin (b)",
            "n>4",
            "n<6",
            "n > 4",
            "x.io/y",
            "x.io/y=",
            "x.io/y in ()",
            "x.io/y in (a,)",
            "a=b,n",
            "a=b , n",
            "a in (b),n in (5)",
            "in=notin",
            "in in (notin)",
        ] {
            check(selected, true);
        }
        for passed in
            ["z", "a=c", "a!=b", "!a", "a in (c)", "a notin (b,c)", "n>5", "a>1", "z=", "a=b,z", "x.io/y>1"]
        {
            check(passed, false);
        }
    }

    #[test]
    fn nonsense_is_refused_in_the_words_of_the_api_machinery() {
        for (nonsense, reason) in [
            ("a b", "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a in b", "found 'b', expected: '('"),
            ("a in (b", "found '', expected: ',' or ')'"),
            ("=x", "found '=', expected: !, identifier, or 'end of string'"),
            ("!", "found '', expected: identifier"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("a=(", "found '(', expected: identifier"),
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("a,,b", "found ',', expected: identifier after ','"),
            ("a,", "found '', expected: identifier after ','"),
            (
                "a>x",
                "values[0][a]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            ("-a", "key: Invalid value: \"-a\": name part must consist"),
            ("a=-", "values[0][a]: Invalid value: \"-\": a valid label must be"),
        ] {
            let refusal = nonsense.parse::<Selector>().unwrap_err().0;
            assert!(refusal.starts_with(reason), "{nonsense}: {refusal}");
        }
    }
}
