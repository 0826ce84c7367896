//! One record on its way through the head.

use std::ops::Range;

use clef_llama::gguf::TensorType;
use clef_llama::graph::{Graph, Store, StoreBuilder};

use crate::error::{Error, ErrorKind, Result};
use crate::layout::QuestionType;
use crate::network::{Network, Scored};
use crate::weights::{Head, MAX_NODES, Named};

/// Where a question and its options stand in the prompt, as token indices.
#[derive(Debug, Clone)]
pub struct QuestionSpans {
    /// The question's type.
    pub kind: QuestionType,
    /// Its text.
    pub text: Range<usize>,
    /// Its options, in prompt order.
    pub options: Vec<Range<usize>>,
}

/// What the head keeps of a prompt while the backbone reads it.
///
/// On the head's device: the projected memory (4 bytes times the head's width per token) and the mean hidden state of
/// each span.
#[derive(Debug)]
pub struct Reading {
    store: Store,
    questions: Vec<QuestionSpans>,
    /// All spans in prompt order; row `i` of the stored means belongs to span `i`.
    spans: Vec<Range<usize>>,
    tokens: usize,
    pushed: usize,
}

const MEMORY: &str = "memory";
const MEANS: &str = "means";
const GLOBAL: &str = "global";

impl Reading {
    /// Starts reading a prompt of `tokens` tokens.
    ///
    /// # Errors
    /// If spans are empty, out of order or outside the prompt, a question has no options, or memory runs out.
    pub fn new(head: &Head, tokens: usize, questions: Vec<QuestionSpans>) -> Result<Self> {
        let mut spans: Vec<Range<usize>> = Vec::new();
        for question in &questions {
            spans.push(question.text.clone());
            spans.extend(question.options.iter().cloned());
        }
        let ordered = spans.windows(2).all(|pair| pair[0].end <= pair[1].start);
        let sound = spans.iter().all(|span| span.start < span.end && span.end <= tokens);
        if !ordered || !sound || questions.is_empty() || questions.iter().any(|q| q.options.is_empty()) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format_args!("{} questions with {} spans in {tokens} tokens do not fit", questions.len(), spans.len()),
            ));
        }
        let (hidden, width) = (head.layout.hidden_width, head.layout.width);
        let mut builder = StoreBuilder::default();
        builder.add(MEMORY, [width, tokens, 1, 1], TensorType::F32);
        builder.add(MEANS, [hidden, spans.len(), 1, 1], TensorType::F32);
        builder.add(GLOBAL, [hidden, 1, 1, 1], TensorType::F32);
        let store = builder.build(&head.compute)?;
        Ok(Self { store, questions, spans, tokens, pushed: 0 })
    }

    /// Takes over what another reading kept of the same first tokens, as [`Reading::memory`] gave it; what follows is
    /// bit-equal to reading them.
    ///
    /// # Errors
    /// If something was read already, a span begins before the end of these tokens, they are all of the prompt, or
    /// `memory` is not a row of the head's width for each.
    pub fn resume(&mut self, head: &Head, memory: &[f32]) -> Result<()> {
        let width = head.layout.width;
        let tokens = memory.len() / width;
        let first_span = self.spans.first().map_or(self.tokens, |span| span.start);
        if self.pushed > 0 || memory.len() != tokens * width || tokens > first_span || tokens >= self.tokens {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format_args!(
                    "{} values cannot stand for the first of {} tokens, of which {} are read and questions begin at {first_span}",
                    memory.len(),
                    self.tokens,
                    self.pushed
                ),
            ));
        }
        self.store.set_rows(MEMORY, 0, memory)?;
        self.pushed = tokens;
        Ok(())
    }

    /// What a reading would keep of tokens outside the questions, given their hidden states row by row: a row of the head's
    /// width for each.
    ///
    /// # Errors
    /// If `hidden` is not whole rows, or the computation fails.
    pub fn project(head: &mut Head, hidden: &[f32]) -> Result<Vec<f32>> {
        let width = head.layout.hidden_width;
        let rows = hidden.len() / width;
        if rows == 0 || rows * width != hidden.len() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format_args!("{} values are not rows of {width}", hidden.len()),
            ));
        }
        let graph = Graph::new(64)?;
        let network = Network::new(&graph, &head.layout, Named(&head.weights));
        let normed = network.norm("decision.hidden_norm", graph.matrix(hidden, width, rows));
        let memory = network.project("memory", normed);
        Ok(graph.run(&mut head.compute, &[memory])?.swap_remove(0))
    }

    /// What is kept of `tokens` (a range of what was read) beside the spans: a row of the head's width for each.
    ///
    /// # Errors
    /// If not all of them were read.
    pub fn memory(&self, head: &Head, tokens: Range<usize>) -> Result<Vec<f32>> {
        if tokens.start > tokens.end || tokens.end > self.pushed {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format_args!("tokens {} to {} of {} that were read", tokens.start, tokens.end, self.pushed),
            ));
        }
        let mut memory = vec![0.0; tokens.len() * head.layout.width];
        if !memory.is_empty() {
            self.store.get_rows(MEMORY, tokens.start, &mut memory)?;
        }
        Ok(memory)
    }

    /// Takes the hidden states of the next tokens, row by row.
    ///
    /// # Errors
    /// If there are more rows than tokens announced, or the computation fails.
    pub fn push(&mut self, head: &mut Head, hidden: &[f32]) -> Result<()> {
        let width = head.layout.hidden_width;
        let rows = hidden.len() / width;
        let block = self.pushed..self.pushed + rows;
        if rows == 0 || rows * width != hidden.len() || block.end > self.tokens {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format_args!("{} hidden values after {} of {} tokens", hidden.len(), self.pushed, self.tokens),
            ));
        }
        let graph = Graph::new(64)?;
        let network = Network::new(&graph, &head.layout, Named(&head.weights));
        let stored = |name| self.store.get(name).expect("stored by `new`");
        let normed = network.norm("decision.hidden_norm", graph.matrix(hidden, width, rows));
        graph.write(network.project("memory", normed), graph.rows(stored(MEMORY), block.start, rows));
        if let Some(means) = SpanMeans::within(&self.spans, &block) {
            let part = graph.rows(normed, means.rows.start, means.rows.len());
            let weights = graph.owned_matrix(means.weights, means.rows.len(), means.spans.len());
            let sums = graph.mul_mat(graph.contiguous(graph.transpose(part)), weights);
            let mut fresh = means.spans.clone();
            if means.first_continues {
                // Only the first span of a block can have begun in an earlier one.
                let kept = graph.rows(stored(MEANS), fresh.start, 1);
                let both = graph.add(kept, graph.rows(sums, 0, 1));
                graph.write(both, graph.rows(stored(MEANS), fresh.start, 1));
                fresh.start += 1;
            }
            if !fresh.is_empty() {
                let skipped = fresh.start - means.spans.start;
                let sums = graph.rows(sums, skipped, fresh.len());
                graph.write(sums, graph.rows(stored(MEANS), fresh.start, fresh.len()));
            }
        }
        if block.end == self.tokens {
            graph.write(graph.rows(normed, rows - 1, 1), stored(GLOBAL));
        }
        graph.run(&mut head.compute, &[])?;
        self.pushed = block.end;
        Ok(())
    }

    /// Answers: the logits of each question's options, in prompt order, divided by the file's temperatures.
    /// `tokens` are the prompt's.
    ///
    /// # Errors
    /// If hidden states are missing, a token is unknown, or the computation fails.
    pub fn finish(&self, head: &mut Head, tokens: &[i32]) -> Result<Vec<Vec<f32>>> {
        let known = |&token: &i32| usize::try_from(token).is_ok_and(|token| token < head.vocabulary());
        if self.pushed != self.tokens || tokens.len() != self.tokens || !tokens.iter().all(known) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format_args!("{} tokens and {} of {} hidden states", tokens.len(), self.pushed, self.tokens),
            ));
        }
        let order = SpanOrder::new(&self.questions);
        let lexical = self.lexical(head, tokens)?;
        let (questions, options) = (order.questions.len(), order.options.len());
        let mask = order.mask(questions);

        let size = head.graph_size(self.tokens, questions, options);
        if size > MAX_NODES {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format_args!(
                    "{options} options on {} tokens make a graph of {size}, the limit is {MAX_NODES}",
                    self.tokens
                ),
            ));
        }
        let graph = Graph::new(size)?;
        let g = &graph;
        let network = Network::new(g, &head.layout, Named(&head.weights)).attending(head.cross_attention());
        let stored = |name| self.store.get(name).expect("stored by `new`");
        let memory = stored(MEMORY);
        let question = g.get_rows(stored(MEANS), g.indices(order.questions));
        let context = g.get_rows(stored(MEANS), g.indices(order.options));
        let lexical = g.owned_matrix(lexical, head.layout.hidden_width, options);
        let owners = g.indices(order.owners);

        let mut vectors = g.add(network.project("option_context", context), network.project("option_lexical", lexical));
        vectors = g.add(vectors, g.get_rows(network.project("option_question", question), owners));
        for block in 0..head.layout.routing_blocks {
            vectors = network.routing_block(block, vectors, memory);
        }

        let mut fields = network.project("question", question);
        let mask = g.owned_matrix(mask, options, questions);
        let weights = g.scale(g.mul_mat(vectors, fields), 1.0 / (head.layout.width as f32).sqrt());
        let weights = g.softmax(g.add(weights, mask), 1.0);
        let summary = g.mul_mat(g.contiguous(g.transpose(vectors)), weights);
        fields = g.add(fields, network.norm("decision.option_summary_norm", summary));
        fields = g.add(fields, network.project("global", stored(GLOBAL)));
        let kinds = self.questions.iter().map(|question| question.kind as i32).collect();
        fields = g.add(fields, g.get_rows(network.weight("token_types.weight"), g.indices(kinds)));
        for block in 0..head.layout.joint_blocks {
            fields = network.joint_block(head.layout.routing_blocks + block, fields, memory);
        }

        let logits =
            network.logits(Scored { question, global: stored(GLOBAL), lexical, options: vectors, fields, owners });
        let flat = graph.run(&mut head.compute, &[logits])?.swap_remove(0);
        Ok(self.split(&flat, head))
    }

    fn split(&self, flat: &[f32], head: &Head) -> Vec<Vec<f32>> {
        let mut rest = flat;
        let mut all = Vec::with_capacity(self.questions.len());
        for question in &self.questions {
            let (own, others) = rest.split_at(question.options.len());
            let temperature = head.layout.temperatures.of(question.kind, own.len());
            all.push(own.iter().map(|logit| logit / temperature).collect());
            rest = others;
        }
        all
    }

    fn lexical(&self, head: &Head, tokens: &[i32]) -> Result<Vec<f32>> {
        let width = head.layout.hidden_width;
        let options = self.questions.iter().flat_map(|question| &question.options);
        let mut means = vec![0.0; width * options.clone().count()];
        let mut row = vec![0.0; width];
        for (span, mean) in options.zip(means.chunks_exact_mut(width)) {
            head.lexical_mean(&tokens[span.clone()], &mut row, mean)?;
        }
        Ok(means)
    }
}

/// The part of the spans' means that one block of hidden states contributes.
struct SpanMeans {
    /// Indices of the spans that the block touches.
    spans: Range<usize>,
    /// Rows of the block, from the first to the last that any of them touches.
    rows: Range<usize>,
    /// A row for each span: 1 / its length where it covers a row, else 0.
    weights: Vec<f32>,
    first_continues: bool,
}

impl SpanMeans {
    fn within(spans: &[Range<usize>], block: &Range<usize>) -> Option<Self> {
        let first = spans.partition_point(|span| span.end <= block.start);
        let last = spans.partition_point(|span| span.start < block.end);
        if first >= last {
            return None;
        }
        let touched = &spans[first..last];
        let clip = |index: usize| index.clamp(block.start, block.end);
        let rows = clip(touched[0].start)..clip(touched[touched.len() - 1].end);
        let mut weights = vec![0.0; rows.len() * touched.len()];
        for (span, row) in touched.iter().zip(weights.chunks_exact_mut(rows.len())) {
            let covered = clip(span.start) - rows.start..clip(span.end) - rows.start;
            row[covered].fill(1.0 / span.len() as f32);
        }
        Some(Self {
            spans: first..last,
            rows: rows.start - block.start..rows.end - block.start,
            weights,
            first_continues: touched[0].start < block.start,
        })
    }
}

/// Which rows of the means are questions and which are options, and whose.
struct SpanOrder {
    questions: Vec<i32>,
    options: Vec<i32>,
    owners: Vec<i32>,
}

impl SpanOrder {
    fn new(questions: &[QuestionSpans]) -> Self {
        let mut order = Self { questions: Vec::new(), options: Vec::new(), owners: Vec::new() };
        let mut next = 0..;
        for (owner, question) in questions.iter().enumerate() {
            order.questions.extend(next.by_ref().take(1));
            order.options.extend(next.by_ref().take(question.options.len()));
            order.owners.resize(order.options.len(), owner as i32);
        }
        order
    }

    /// `[options, questions]`: 0 where the option belongs to the question, else minus infinity.
    fn mask(&self, questions: usize) -> Vec<f32> {
        let row =
            |question| self.owners.iter().map(move |&owner| if owner == question { 0.0 } else { f32::NEG_INFINITY });
        (0..questions as i32).flat_map(row).collect()
    }
}
