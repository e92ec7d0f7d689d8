//! What came of the cases: lines for people, JUnit's XML for machines.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    /// What was expected and what came.
    Failed(String),
    /// Why the case says nothing about this plugin.
    NotApplicable(String),
}

#[derive(Clone, Debug)]
pub struct Tested {
    /// `general`, or the folder of the plugin's own cases.
    pub group: &'static str,
    pub name: String,
    pub verdict: Verdict,
    pub took: Duration,
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub component: String,
    pub digest: String,
    pub tests: Vec<Tested>,
}

impl Report {
    pub fn failures(&self) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::Failed(_)))
    }

    fn count(&self, is: impl Fn(&Verdict) -> bool) -> usize {
        self.tests.iter().filter(|test| is(&test.verdict)).count()
    }

    fn not_applicable(&self) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::NotApplicable(_)))
    }

    pub fn summary(&self) -> String {
        let (failed, skipped) = (self.failures(), self.not_applicable());
        let passed = self.tests.len() - failed - skipped;
        let took: Duration = self.tests.iter().map(|test| test.took).sum();
        let skipped = if skipped == 0 { String::new() } else { format!(", {skipped} not applicable") };
        format!("{passed} passed, {failed} failed{skipped} in {:.1} s", took.as_secs_f64())
    }

    /// As `surefire` and most CI systems read it.
    pub fn junit(&self) -> String {
        let took: Duration = self.tests.iter().map(|test| test.took).sum();
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let _ = writeln!(
            xml,
            "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{:.3}\">",
            escaped(&self.component),
            self.tests.len(),
            self.failures(),
            self.not_applicable(),
            took.as_secs_f64()
        );
        let _ = writeln!(
            xml,
            "  <properties><property name=\"sha256\" value=\"{}\"/></properties>",
            escaped(&self.digest)
        );
        for test in &self.tests {
            let _ = write!(
                xml,
                "  <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
                escaped(test.group),
                escaped(&test.name),
                test.took.as_secs_f64()
            );
            let _ = match &test.verdict {
                Verdict::Passed => writeln!(xml, "/>"),
                Verdict::Failed(why) => {
                    writeln!(xml, "><failure message=\"{}\"/></testcase>", escaped(why))
                }
                Verdict::NotApplicable(why) => {
                    writeln!(xml, "><skipped message=\"{}\"/></testcase>", escaped(why))
                }
            };
        }
        xml.push_str("</testsuite>\n");
        xml
    }
}

impl Tested {
    /// A line, with what is wrong below it.
    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        match &self.verdict {
            Verdict::Passed => writeln!(out, "pass  {}", self.name),
            Verdict::NotApplicable(why) => writeln!(out, "n/a   {} ({why})", self.name),
            Verdict::Failed(why) => {
                writeln!(out, "FAIL  {}", self.name)?;
                why.lines().try_for_each(|line| writeln!(out, "      {line}"))
            }
        }
    }
}

/// For an attribute. What XML can't hold at all is shown as a replacement character.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            control if control < ' ' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let test = |name: &str, verdict| Tested {
            group: "general",
            name: name.to_owned(),
            verdict,
            took: Duration::from_millis(500),
        };
        Report {
            component: "a<b>.wasm".into(),
            digest: "00".into(),
            tests: vec![
                test("good", Verdict::Passed),
                test("bad", Verdict::Failed("expected \"x\"\ngot \u{1}&".into())),
                test("none", Verdict::NotApplicable("no HTTP".into())),
            ],
        }
    }

    #[test]
    fn what_does_not_apply_is_counted_and_never_passed_off_as_passed() {
        assert_eq!(report().summary(), "1 passed, 1 failed, 1 not applicable in 1.5 s");
        let mut out = Vec::new();
        report().tests.iter().for_each(|test| test.print(&mut out).unwrap());
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("n/a   none (no HTTP)") && text.contains("FAIL  bad\n      expected"),
            "{text}"
        );
    }

    #[test]
    fn junit_is_well_formed_whatever_a_plugin_says() {
        let xml = report().junit();
        assert!(
            xml.contains("name=\"a&lt;b&gt;.wasm\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""),
            "{xml}"
        );
        assert!(xml.contains("<failure message=\"expected &quot;x&quot;&#10;got \u{fffd}&amp;\"/>"), "{xml}");
        assert!(xml.contains("<skipped message=\"no HTTP\"/>"), "{xml}");
    }
}
