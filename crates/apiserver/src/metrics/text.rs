//! The Prometheus text exposition format.

use std::fmt::{Display, Write};

/// A text in the making.
#[derive(Debug, Default)]
pub(crate) struct ExpositionText(String);

// --- ExpositionText ---

impl ExpositionText {
    /// Begins a family of series.
    pub(crate) fn metric_family(&mut self, name: &str, kind: &str, help: &str) {
        self.put(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// One figure.
    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (position, (label, text)) in labels.iter().enumerate() {
            let before = if position == 0 { '{' } else { ',' };
            self.put(format_args!("{before}{label}=\"{}\"", EscapedLabelValue(text)));
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        self.put(format_args!(" {value}\n"));
    }

    /// A family of one figure.
    pub(crate) fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.metric_family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// The whole text.
    pub(crate) fn finish(self) -> String {
        self.0
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("text can be written to memory");
    }
}

/// The value of a label, which ends at a quote.
struct EscapedLabelValue<'t>(&'t str);

impl Display for EscapedLabelValue<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_label_values() {
        let mut text = ExpositionText::default();
        text.single("a_total", "counter", "Some.", 3);
        text.sample("b", &[("x", "1\"2\\3\n4"), ("y", "")], 0.5);
        assert_eq!(
            text.finish(),
            "# HELP a_total Some.\n# TYPE a_total counter\na_total 3\nb{x=\"1\\\"2\\\\3\\n4\",y=\"\"} 0.5\n"
        );
    }
}
