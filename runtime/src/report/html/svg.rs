//! Drawing: scales, ticks, axes, legends. Plain SVG; what it looks like is in the page's style sheet.

use std::fmt::Write;

use crate::exit::printable;

/// Width of every chart, in units of its own; the page scales it.
pub const WIDTH: f64 = 960.0;

/// Text fit for a page: nothing in it can become markup, or drive a terminal that shows the source.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Milliseconds as a person wants them: three digits that count.
#[must_use]
pub fn ms(value: f64) -> String {
    if value >= 99.95 {
        format!("{value:.0}")
    } else if value >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// A quantity along an edge of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it is, with its unit.
    pub title: String,
    /// Value at its beginning.
    pub low: f64,
    /// Value at its end.
    pub high: f64,
    /// Whether equal factors are equally far apart.
    pub log: bool,
    /// Values with their labels.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From `low` to at least `high`, with ticks at round values.
    #[must_use]
    pub fn linear(title: &str, low: f64, high: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        let step = round_step((high - low) / 6.0);
        let low = (low / step).floor() * step;
        let count = ((high - low) / step).ceil().max(1.0);
        let ticks = (0..=count as usize)
            .map(|n| {
                let value = low + n as f64 * step;
                (value, number(value, step))
            })
            .collect();
        Self {
            title: title.to_owned(),
            low,
            high: low + count * step,
            log: false,
            ticks,
        }
    }

    /// Equal factors equally far apart, ticks at 1, 2 and 5 times the powers of ten.
    #[must_use]
    pub fn log(title: &str, low: f64, high: f64) -> Self {
        let low = low.max(1e-3);
        let high = high.max(low * 2.0);
        let mut ticks = Vec::new();
        let mut power = 10_f64.powf(low.log10().floor());
        while power <= high * 1.001 {
            for factor in [1.0, 2.0, 5.0] {
                let value = power * factor;
                if value >= low * 0.999 && value <= high * 1.001 {
                    ticks.push((value, number(value, value)));
                }
            }
            power *= 10.0;
        }
        if ticks.len() > 10 {
            ticks.retain(|(value, _)| {
                let digits = value / 10_f64.powf(value.log10().floor() + 1e-9_f64.copysign(1.0));
                (0.99..1.01).contains(&digits)
            });
        }
        Self {
            title: title.to_owned(),
            low,
            high,
            log: true,
            ticks,
        }
    }

    /// Wall time in seconds since 1970.
    #[must_use]
    pub fn time(low: i64, high: i64) -> Self {
        let high = high.max(low + 60);
        let steps = [
            10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800,
            604_800, 2_592_000, 15_552_000, 63_072_000,
        ];
        let step = steps
            .into_iter()
            .find(|step| (high - low) / step <= 8)
            .unwrap_or(high - low);
        let first = (low + step - 1).div_euclid(step) * step;
        let mut ticks = Vec::new();
        let mut at = first;
        while at <= high && ticks.len() < 12 {
            let text = crate::log::read::Wall(at.saturating_mul(1_000_000_000)).rfc3339();
            let label = if step >= 86_400 {
                text[..10].to_owned()
            } else if high - low > 86_400 {
                format!("{} {}", &text[5..10], &text[11..16])
            } else if step < 60 {
                text[11..19].to_owned()
            } else {
                text[11..16].to_owned()
            };
            ticks.push((at as f64, label));
            at += step;
        }
        Self {
            title: "time (UTC)".to_owned(),
            low: low as f64,
            high: high as f64,
            log: false,
            ticks,
        }
    }

    /// From 0 (low) to 1 (high); what is outside stays at the edge.
    #[must_use]
    pub fn share(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        share.clamp(0.0, 1.0)
    }
}

/// 1, 2 or 5 times a power of ten, at least this.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|&step| step >= least * 0.999)
        .unwrap_or(power * 10.0)
}

fn number(value: f64, step: f64) -> String {
    let digits = (-step.log10().floor()).clamp(0.0, 3.0) as usize;
    let text = format!("{value:.digits$}");
    if text.starts_with('-') && text.trim_start_matches(['-', '0', '.']).is_empty() {
        return text[1..].to_owned();
    }
    text
}

/// A sign of the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A filled box of this class.
    Box(&'static str),
    /// A line of this class.
    Line(&'static str),
    /// A dot of this class.
    Dot(&'static str),
}

/// A chart with two axes.
#[derive(Debug)]
pub struct Chart {
    body: String,
    x: Axis,
    y: Axis,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    legend_at: (f64, f64),
}

impl Chart {
    /// An empty chart.
    #[must_use]
    pub fn new(x: Axis, y: Axis, height: f64) -> Self {
        let mut chart = Self {
            body: String::new(),
            x,
            y,
            height,
            left: 72.0,
            right: 24.0,
            top: 34.0,
            bottom: 48.0,
            legend_at: (72.0, 14.0),
        };
        chart.axes();
        chart
    }

    /// The place of a value of the x axis.
    #[must_use]
    pub fn x(&self, value: f64) -> f64 {
        self.left + self.x.share(value) * (WIDTH - self.left - self.right)
    }

    /// The place of a value of the y axis.
    #[must_use]
    pub fn y(&self, value: f64) -> f64 {
        let inner = self.height - self.top - self.bottom;
        self.height - self.bottom - self.y.share(value) * inner
    }

    fn axes(&mut self) {
        let (right, bottom) = (WIDTH - self.right, self.height - self.bottom);
        let mut out = String::new();
        for (value, label) in &self.y.ticks {
            let y = self.y(*value);
            let _ = write!(
                out,
                r#"<path class="grid" d="M{:.1} {y:.1}H{right:.1}"/><text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
                self.left,
                self.left - 8.0,
                y + 4.0,
                escape(label)
            );
        }
        for (value, label) in &self.x.ticks {
            let x = self.x(*value);
            let _ = write!(
                out,
                r#"<path class="edge" d="M{x:.1} {bottom:.1}v5"/><text class="tick" x="{x:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
                bottom + 19.0,
                escape(label)
            );
        }
        let _ = write!(
            out,
            r#"<path class="edge" d="M{:.1} {:.1}V{bottom:.1}H{right:.1}"/><text class="name" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text><text class="name" transform="translate(16 {:.1}) rotate(-90)" text-anchor="middle">{}</text>"#,
            self.left,
            self.top,
            f64::midpoint(self.left, right),
            self.height - 8.0,
            escape(&self.x.title),
            f64::midpoint(self.top, bottom),
            escape(&self.y.title),
        );
        self.body.push_str(&out);
    }

    /// A line through points; a gap where two are further apart than `gap` on the x axis.
    pub fn line(&mut self, class: &str, points: &[(f64, f64)], gap: f64) {
        let mut path = String::new();
        let mut before: Option<f64> = None;
        for (index, &(x, y)) in points.iter().enumerate() {
            let begins = before.is_none_or(|before| x - before > gap);
            let (px, py) = (self.x(x), self.y(y));
            let alone = begins && points.get(index + 1).is_none_or(|next| next.0 - x > gap);
            if alone {
                // A point without neighbours would draw nothing.
                let _ = write!(path, "M{:.1} {py:.1}h3", px - 1.5);
            } else {
                let _ = write!(path, "{}{px:.1} {py:.1}", if begins { 'M' } else { 'L' });
            }
            before = Some(x);
        }
        let _ = write!(self.body, r#"<path class="{class}" d="{path}"/>"#);
    }

    /// A dot with a text that shows when it is pointed at.
    pub fn dot(&mut self, class: &str, x: f64, y: f64, radius: f64, says: &str) {
        let _ = write!(
            self.body,
            r#"<circle class="{class}" cx="{:.1}" cy="{:.1}" r="{radius}"><title>{}</title></circle>"#,
            self.x(x),
            self.y(y),
            escape(says)
        );
    }

    /// A horizontal line with its label, at the right above it.
    pub fn level(&mut self, class: &str, y: f64, label: &str) {
        let (place, right) = (self.y(y), WIDTH - self.right);
        let _ = write!(
            self.body,
            r#"<path class="{class}" d="M{:.1} {place:.1}H{right:.1}"/><text class="note" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
            self.left,
            right - 4.0,
            place - 5.0,
            escape(label)
        );
    }

    /// A vertical line with its label beside its upper end, or its lower one.
    pub fn upright(&mut self, class: &str, x: f64, label: &str, low: bool) {
        let place = self.x(x);
        let bottom = self.height - self.bottom;
        let late = self.x.share(x) > 0.6;
        let (at, anchor) = if late {
            (place - 5.0, "end")
        } else {
            (place + 5.0, "start")
        };
        let _ = write!(
            self.body,
            r#"<path class="{class}" d="M{place:.1} {:.1}V{bottom:.1}"/><text class="note" x="{at:.1}" y="{:.1}" text-anchor="{anchor}">{}</text>"#,
            self.top,
            if low { bottom - 8.0 } else { self.top + 12.0 },
            escape(label)
        );
    }

    /// A stretch of the x axis in another shade.
    pub fn shade(&mut self, class: &str, from: f64, to: f64, says: &str) {
        let (x, end) = (self.x(from), self.x(to));
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{x:.1}" y="{:.1}" width="{:.1}" height="{:.1}"><title>{}</title></rect>"#,
            self.top,
            (end - x).max(1.0),
            self.height - self.top - self.bottom,
            escape(says)
        );
    }

    /// A box over stretches of both axes; `y` counts rows from above.
    pub fn bar(&mut self, class: &str, from: f64, to: f64, y: f64, thick: f64, says: &str) {
        let (x, end) = (self.x(from), self.x(to));
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{:.1}" height="{thick:.1}"><title>{}</title></rect>"#,
            (end - x).max(1.5),
            escape(says)
        );
    }

    /// Text at a place of the drawing.
    pub fn text(&mut self, class: &str, x: f64, y: f64, anchor: &str, text: &str) {
        let _ = write!(
            self.body,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{}</text>"#,
            escape(text)
        );
    }

    /// An entry of the legend, above the chart.
    pub fn legend(&mut self, sign: Sign, label: &str) {
        let (x, y) = self.legend_at;
        let drawn = match sign {
            Sign::Box(class) => format!(
                r#"<rect class="{class}" x="{x:.1}" y="{:.1}" width="20" height="12"/>"#,
                y - 9.0
            ),
            Sign::Line(class) => {
                format!(r#"<path class="{class}" d="M{x:.1} {:.1}h22"/>"#, y - 3.0)
            }
            Sign::Dot(class) => format!(
                r#"<circle class="{class}" cx="{:.1}" cy="{:.1}" r="4"/>"#,
                x + 10.0,
                y - 4.0
            ),
        };
        let _ = write!(
            self.body,
            r#"{drawn}<text class="key" x="{:.1}" y="{:.1}">{}</text>"#,
            x + 28.0,
            y + 1.0,
            escape(label)
        );
        // 7.1 units for a letter of 13: DejaVu Sans, the widest of the usual fonts.
        self.legend_at.0 += 48.0 + 7.1 * label.chars().count() as f64;
    }

    /// The chart with a title that is read aloud.
    #[must_use]
    pub fn finish(self, title: &str) -> String {
        format!(
            r#"<svg viewBox="0 0 {WIDTH} {:.0}" role="img"><title>{}</title>{}</svg>"#,
            self.height,
            escape(title),
            self.body
        )
    }
}

/// A waterfall: rows with names at the left, a bar in each, one axis of milliseconds.
#[derive(Debug)]
pub struct Rows {
    chart: Chart,
    next: f64,
}

/// Height of a row of a waterfall.
const ROW: f64 = 22.0;

impl Rows {
    /// Room for so many rows.
    #[must_use]
    pub fn new(x: Axis, rows: usize) -> Self {
        let y = Axis {
            title: String::new(),
            low: 0.0,
            high: 1.0,
            log: false,
            ticks: Vec::new(),
        };
        let mut chart = Chart {
            body: String::new(),
            x,
            y,
            height: 34.0 + ROW * rows as f64 + 6.0 + 48.0,
            left: 150.0,
            right: 96.0,
            top: 34.0,
            bottom: 48.0,
            legend_at: (150.0, 14.0),
        };
        let (top, bottom) = (chart.top, chart.height - chart.bottom);
        for (value, _) in chart.x.ticks.clone() {
            let x = chart.x(value);
            let _ = write!(
                chart.body,
                r#"<path class="grid" d="M{x:.1} {top:.1}V{bottom:.1}"/>"#
            );
        }
        chart.axes();
        Self { chart, next: 36.0 }
    }

    /// A row: name, bar from here to there, what it usually takes, value at its end.
    pub fn row(
        &mut self,
        name: &str,
        class: &str,
        from: f64,
        to: f64,
        usual: Option<f64>,
        value: &str,
    ) {
        let y = self.next;
        self.next += ROW;
        self.chart.text("row", 142.0, y + 14.0, "end", name);
        self.chart.bar(
            class,
            from,
            to,
            y + 2.0,
            ROW - 6.0,
            &format!("{name}: {value}"),
        );
        let mut end = to;
        if let Some(usual) = usual {
            self.chart.bar(
                "usual",
                from,
                from + usual,
                y + 1.0,
                ROW - 4.0,
                &format!("{name}, usual: {} ms", ms(usual)),
            );
            end = end.max(from + usual);
        }
        let x = self.chart.x(end) + 6.0;
        self.chart.text("value", x, y + 14.0, "start", value);
    }

    /// The chart below the rows.
    pub fn chart(&mut self) -> &mut Chart {
        &mut self.chart
    }

    /// The chart with a title that is read aloud.
    #[must_use]
    pub fn finish(self, title: &str) -> String {
        self.chart.finish(title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let axis = Axis::linear("ms", 0.0, 437.0);
        let labels: Vec<&str> = axis.ticks.iter().map(|(_, label)| &**label).collect();
        assert_eq!(labels, ["0", "100", "200", "300", "400", "500"]);
        let axis = Axis::linear("ms", 0.0, 0.7);
        assert_eq!(axis.ticks[1].1, "0.2");
        let axis = Axis::log("ms", 12.0, 900.0);
        let labels: Vec<&str> = axis.ticks.iter().map(|(_, label)| &**label).collect();
        assert_eq!(labels, ["20", "50", "100", "200", "500"]);
        assert!((axis.share(1e9) - 1.0).abs() < 1e-9 && axis.share(0.0).abs() < 1e-9);
    }

    #[test]
    fn one_instant_and_a_year_both_have_times() {
        for (low, high) in [
            (1_795_507_200, 1_795_507_200),
            (1_795_507_200, 1_795_507_200 + 31_536_000),
        ] {
            let axis = Axis::time(low, high);
            assert!((1..=12).contains(&axis.ticks.len()), "{axis:?}");
        }
    }

    #[test]
    fn nothing_in_a_text_becomes_markup() {
        assert_eq!(
            escape("<b a='x'>&\"\u{1b}[2J"),
            "&lt;b a=&#39;x&#39;&gt;&amp;&quot;\\u{1b}[2J"
        );
    }
}
