//! The head again, written for reading: plain loops over vectors of doubles, no pieces, no graph.

use std::collections::BTreeMap;
use std::ops::Range;

use clef_head::Layout;
use clef_llama::gguf::Gguf;

use crate::Prompt;

type Row = Vec<f64>;

struct Net<'a> {
    gguf: &'a Gguf,
    cache: std::cell::RefCell<BTreeMap<String, std::rc::Rc<Vec<Row>>>>,
    layout: Layout,
    heads: usize,
}

pub(crate) fn logits(gguf: &Gguf, heads: usize, prompt: &Prompt) -> Vec<f64> {
    let layout = clef_head::HeadFile::of(gguf).unwrap().layout().clone();
    let net = Net { gguf, cache: Default::default(), layout, heads };
    let hidden: Vec<Row> = prompt
        .hidden
        .chunks(net.layout.hidden_width)
        .map(|row| net.norm("decision.hidden_norm", &row.iter().map(|&value| f64::from(value)).collect::<Row>()))
        .collect();
    let memory: Vec<Row> = hidden.iter().map(|row| net.project("memory", row)).collect();
    let global = hidden.last().unwrap();
    let table = net.matrix("output.weight");
    let mean = |rows: &mut dyn Iterator<Item = &Row>| {
        let (mut sum, mut count) = (vec![0.0; net.layout.hidden_width], 0.0);
        for row in rows {
            sum = add(&sum, row);
            count += 1.0;
        }
        sum.iter().map(|value| value / count).collect::<Row>()
    };
    let over = |span: &Range<usize>| mean(&mut hidden[span.clone()].iter());
    let lexical =
        |span: &Range<usize>| mean(&mut prompt.tokens[span.clone()].iter().map(|&token| &table[token as usize]));

    let questions: Vec<Row> = prompt.questions.iter().map(|question| over(&question.text)).collect();
    let mut options: Vec<Vec<Row>> = Vec::new();
    for (question, asked) in questions.iter().zip(&prompt.questions) {
        let query = net.project("option_question", question);
        let one = |span| {
            let context = net.project("option_context", &over(span));
            add(&add(&context, &net.project("option_lexical", &lexical(span))), &query)
        };
        options.push(asked.options.iter().map(one).collect());
    }
    for block in 0..net.layout.routing_blocks {
        let name = format!("dec.blk.{block}.cross_attn");
        let normed: Vec<Row> = memory.iter().map(|row| net.norm(&format!("{name}_norm_kv"), row)).collect();
        let kv = net.keys_values(&name, &normed);
        for option in options.iter_mut().flatten() {
            *option = add(option, &net.attend(&name, &net.norm(&format!("{name}_norm"), option), &kv));
            *option = add(option, &net.feed_forward(block, option));
        }
    }

    let types = net.matrix("token_types.weight");
    let mut fields: Vec<Row> = Vec::new();
    for ((question, asked), options) in questions.iter().zip(&prompt.questions).zip(&options) {
        let start = net.project("question", question);
        let scale = (net.layout.width as f64).sqrt();
        let weights = softmax(&options.iter().map(|option| dot(option, &start) / scale).collect::<Row>());
        let summary = weighted(&weights, options);
        let field = add(&start, &net.norm("decision.option_summary_norm", &summary));
        fields.push(add(&add(&field, &net.project("global", global)), &types[asked.kind as usize]));
    }
    for block in net.layout.routing_blocks..net.layout.routing_blocks + net.layout.joint_blocks {
        let name = format!("dec.blk.{block}.attn");
        let normed: Vec<Row> = fields.iter().map(|field| net.norm(&format!("{name}_norm"), field)).collect();
        let kv = net.keys_values(&name, &normed);
        for (field, normed) in fields.iter_mut().zip(&normed) {
            *field = add(field, &net.attend(&name, normed, &kv));
        }
        let name = format!("dec.blk.{block}.cross_attn");
        let kv = net.keys_values(&name, &memory);
        for field in &mut fields {
            *field = add(field, &net.attend(&name, &net.norm(&format!("{name}_norm"), field), &kv));
            *field = add(field, &net.feed_forward(block, field));
        }
    }

    let scales = &net.matrix("decision.scales")[0];
    let mut logits = Vec::new();
    for (index, asked) in prompt.questions.iter().enumerate() {
        let anchor = add(&questions[index], global);
        let field = net.norm("decision.field_norm", &fields[index]);
        for (span, option) in asked.options.iter().zip(&options[index]) {
            let option = net.norm("decision.option_norm", option);
            let product = field.iter().zip(&option).map(|(f, o)| f * o);
            let difference = field.iter().zip(&option).map(|(f, o)| (f - o).abs());
            let features: Row = field.iter().chain(&option).copied().chain(product).chain(difference).collect();
            let inner: Row = net.linear("decision.scorer", &features).into_iter().map(gelu).collect();
            let residual = net.linear("decision.scorer_out", &inner)[0];
            let joint = scales[1] * cosine(&field, &option) + residual;
            logits.push(scales[0] * cosine(&lexical(span), &anchor) + scales[2] * joint);
        }
    }
    logits
}

impl Net<'_> {
    fn matrix(&self, name: &str) -> std::rc::Rc<Vec<Row>> {
        if let Some(known) = self.cache.borrow().get(name) {
            return std::rc::Rc::clone(known);
        }
        let tensor = self.gguf.tensor(name).unwrap();
        let data = self.gguf.data(tensor);
        let row = |bytes: &[u8]| {
            let mut row = vec![0.0; tensor.shape[0] as usize];
            tensor.kind.dequantize_row(bytes, &mut row).unwrap();
            row.into_iter().map(f64::from).collect()
        };
        let rows = std::rc::Rc::new(data.chunks(data.len() / tensor.shape[1] as usize).map(row).collect::<Vec<Row>>());
        self.cache.borrow_mut().insert(name.to_owned(), std::rc::Rc::clone(&rows));
        rows
    }

    fn project(&self, name: &str, x: &[f64]) -> Row {
        self.matrix(&format!("decision.proj_{name}.weight")).iter().map(|row| dot(row, x)).collect()
    }

    fn linear(&self, name: &str, x: &[f64]) -> Row {
        let product: Row = self.matrix(&format!("{name}.weight")).iter().map(|row| dot(row, x)).collect();
        add(&product, &self.matrix(&format!("{name}.bias"))[0])
    }

    fn norm(&self, name: &str, x: &[f64]) -> Row {
        let count = x.len() as f64;
        let mean = x.iter().sum::<f64>() / count;
        let variance = x.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let scale = 1.0 / (variance + f64::from(self.layout.epsilon)).sqrt();
        let (weight, bias) = (self.matrix(&format!("{name}.weight")), self.matrix(&format!("{name}.bias")));
        x.iter().zip(weight[0].iter().zip(&bias[0])).map(|(value, (w, b))| (value - mean) * scale * w + b).collect()
    }

    /// For each row, its key and its value.
    fn keys_values(&self, name: &str, rows: &[Row]) -> (Vec<Row>, Vec<Row>) {
        let part = |part| rows.iter().map(|row| self.linear(&format!("{name}_{part}"), row)).collect();
        (part("k"), part("v"))
    }

    fn attend(&self, name: &str, x: &[f64], (keys, values): &(Vec<Row>, Vec<Row>)) -> Row {
        let query = self.linear(&format!("{name}_q"), x);
        let width = query.len() / self.heads;
        let mut mixed = vec![0.0; query.len()];
        for head in 0..self.heads {
            let own = head * width..(head + 1) * width;
            let score = |key: &Row| dot(&query[own.clone()], &key[own.clone()]) / (width as f64).sqrt();
            let weights = softmax(&keys.iter().map(score).collect::<Row>());
            for (weight, value) in weights.iter().zip(values) {
                mixed[own.clone()].iter_mut().zip(&value[own.clone()]).for_each(|(sum, value)| *sum += weight * value);
            }
        }
        self.linear(&format!("{name}_o"), &mixed)
    }

    fn feed_forward(&self, block: usize, x: &[f64]) -> Row {
        let inner =
            self.linear(&format!("dec.blk.{block}.ffn_up"), &self.norm(&format!("dec.blk.{block}.ffn_norm"), x));
        self.linear(&format!("dec.blk.{block}.ffn_down"), &inner.into_iter().map(gelu).collect::<Row>())
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    // Eight sums at once, or the compiler keeps to one after the other.
    let mut sums = [0.0; 8];
    let (a, a_rest) = a.as_chunks::<8>();
    let (b, b_rest) = b.as_chunks::<8>();
    for (a, b) in a.iter().zip(b) {
        (0..8).for_each(|lane| sums[lane] += a[lane] * b[lane]);
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}

fn add(a: &[f64], b: &[f64]) -> Row {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn weighted(weights: &[f64], rows: &[Row]) -> Row {
    let mut sum = vec![0.0; rows[0].len()];
    for (weight, row) in weights.iter().zip(rows) {
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += weight * value);
    }
    sum
}

fn softmax(scores: &[f64]) -> Row {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Row = scores.iter().map(|score| (score - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    dot(a, b) / (dot(a, a).sqrt() * dot(b, b).sqrt()).max(1e-24)
}

/// x times the normal distribution function.
fn gelu(x: f64) -> f64 {
    x * 0.5 * (1.0 + erf(x / std::f64::consts::SQRT_2))
}

/// By the series all of whose terms have one sign, so that nothing cancels.
fn erf(x: f64) -> f64 {
    if x.abs() > 5.9 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    sum * (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI
}
