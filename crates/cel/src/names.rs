//! Checks the names in an expression.

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr};

/// Returns the name before the dot of a call: `sets` in `sets.contains(a, b)`.
#[must_use]
pub fn library(call: &CallExpr) -> Option<&str> {
    match &call.target.as_deref()?.expr {
        Expr::Ident(name) => Some(name),
        _ => None,
    }
}

/// Rejects unknown variables and functions. All operators and all functions of a library are accepted, such as
/// `contains` in `sets.contains(a, b)`.
///
/// # Errors
/// Names the first unknown one, as cel-go does.
pub fn check_names(
    expression: &IdedExpr,
    variables: &[&str],
    libraries: &[&str],
    has_function: impl Fn(&str) -> bool,
) -> Result<(), String> {
    Names { variables, libraries, has_function, bound: Vec::new() }.check(expression)
}

struct Names<'e, F> {
    variables: &'e [&'e str],
    libraries: &'e [&'e str],
    has_function: F,
    /// The variables of the enclosing macros.
    bound: Vec<&'e str>,
}

impl<'e, F: Fn(&str) -> bool> Names<'e, F> {
    fn check(&mut self, expression: &'e IdedExpr) -> Result<(), String> {
        match &expression.expr {
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => {
                let name = name.as_str();
                let is_known =
                    name.starts_with('@') || self.bound.contains(&name) || self.variables.contains(&name);
                if is_known { Ok(()) } else { Err(format!("undeclared reference to '{name}'")) }
            }
            Expr::Select(select) => self.check(&select.operand),
            Expr::List(list) => list.elements.iter().try_for_each(|element| self.check(element)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.check(&entry.key)?;
                    self.check(&entry.value)
                }
                EntryExpr::StructField(_) => Err("message literals are not supported".into()),
            }),
            Expr::Call(call) => self.check_call(call),
            Expr::Comprehension(loops) => {
                self.check(&loops.iter_range)?;
                self.check(&loops.accu_init)?;
                let outside = self.bound.len();
                self.bound.extend([loops.iter_var.as_str(), loops.accu_var.as_str()]);
                self.bound.extend(loops.iter_var2.as_deref());
                let mut inside = [&loops.loop_cond, &loops.loop_step, &loops.result].into_iter();
                let checked = inside.try_for_each(|part| self.check(part));
                self.bound.truncate(outside);
                checked
            }
            Expr::Struct(_) => Err("message literals are not supported".into()),
            Expr::Unspecified => Err("the expression is empty".into()),
        }
    }

    fn check_call(&mut self, call: &'e CallExpr) -> Result<(), String> {
        let is_of_library = library(call).is_some_and(|name| self.libraries.contains(&name));
        let name = call.func_name.as_str();
        let is_operator = !name.starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_of_library && !is_operator && !(self.has_function)(name) {
            return Err(format!("undeclared reference to function '{name}'"));
        }
        if let Some(target) = call.target.as_deref().filter(|_| !is_of_library) {
            self.check(target)?;
        }
        call.args.iter().try_for_each(|arg| self.check(arg))
    }
}
