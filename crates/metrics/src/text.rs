//! The Prometheus text exposition format.

use std::fmt::{Display, Write};

/// A number as the Go client writes it: `5`, `0.25`, `1e-08`, `1e+06`, `+Inf`.
#[derive(Clone, Copy, Debug)]
pub struct Number(pub f64);

/// A text in the making.
#[derive(Debug, Default)]
pub struct ExpositionText(String);

// --- ExpositionText ---

impl ExpositionText {
    /// Begins a family of series.
    pub fn metric_family(&mut self, name: &str, kind: &str, help: &str) {
        self.put(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// One figure.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
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
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.metric_family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// One histogram: its buckets from the position `first` up with their upper bounds and own counts, and the sum of what was
    /// observed. The last bound is infinite.
    pub fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        first: usize,
        buckets: impl IntoIterator<Item = (f64, u64)>,
        sum: f64,
    ) {
        let bucket_name = format!("{name}_bucket");
        let mut count = 0;
        for (position, (bound, counted)) in buckets.into_iter().enumerate() {
            count += counted;
            if position < first {
                continue;
            }
            let bound = Number(bound).to_string();
            let mut labels = labels.to_vec();
            labels.push(("le", &bound));
            self.sample(&bucket_name, &labels, count);
        }
        self.sample(&format!("{name}_sum"), labels, Number(sum));
        self.sample(&format!("{name}_count"), labels, count);
    }

    /// The whole text.
    pub fn finish(self) -> String {
        self.0
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("text can be written to memory");
    }
}

impl Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = self.0;
        if number.is_infinite() {
            return f.write_str(if number > 0.0 { "+Inf" } else { "-Inf" });
        }
        let size = number.abs();
        if !number.is_finite() || size == 0.0 || (1e-4..1e6).contains(&size) {
            return number.fmt(f);
        }
        let text = format!("{number:e}");
        let Some((digits, power)) = text.split_once('e') else {
            return f.write_str(&text);
        };
        match power.strip_prefix('-') {
            Some(power) => write!(f, "{digits}e-{power:0>2}"),
            None => write!(f, "{digits}e+{power:0>2}"),
        }
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

    #[test]
    fn numbers_are_formatted_like_the_go_client() {
        let numbers = [
            0.0,
            5.0,
            -0.25,
            0.005,
            1e-4,
            1e-8,
            2.5e-5,
            1e5,
            1e6,
            1e9,
            f64::INFINITY,
        ];
        let texts = numbers.map(|number| Number(number).to_string());
        let expected = [
            "0", "5", "-0.25", "0.005", "0.0001", "1e-08", "2.5e-05", "100000", "1e+06", "1e+09", "+Inf",
        ];
        assert_eq!(texts, expected);
        assert_eq!(Number(f64::NEG_INFINITY).to_string(), "-Inf");
        assert_eq!(Number(f64::NAN).to_string(), "NaN");
    }

    #[test]
    fn histogram_has_cumulative_buckets() {
        let mut text = ExpositionText::default();
        let buckets = [(0.5, 1), (1.0, 0), (f64::INFINITY, 2)];
        text.histogram("took", &[("a", "b")], 1, buckets, 7.5);
        assert_eq!(
            text.finish(),
            "took_bucket{a=\"b\",le=\"1\"} 1\ntook_bucket{a=\"b\",le=\"+Inf\"} 3\ntook_sum{a=\"b\"} 7.5\ntook_count{a=\"b\"} 3\n"
        );
    }
}
