//! The parts of the network, as graph operations. The reference is `JointSchemaHead` of the released checkpoints.

use clef_llama::graph::{Graph, Tensor};

use crate::attention::{CrossAttention, piece_rows};
use crate::layout::Layout;
use crate::weights::{Head, Named};

/// Graph building with the head's weights at hand.
pub(crate) struct Network<'g, 's> {
    pub(crate) graph: &'g Graph<'s>,
    weights: Named<'s>,
    pub(crate) layout: &'s Layout,
    pub(crate) cross_attention: CrossAttention,
}

impl<'g, 's> Network<'g, 's> {
    pub(crate) fn new(graph: &'g Graph<'s>, layout: &'s Layout, weights: Named<'s>) -> Self {
        Self { graph, weights, layout, cross_attention: CrossAttention::default() }
    }

    pub(crate) fn attending(self, cross_attention: CrossAttention) -> Self {
        Self { cross_attention, ..self }
    }

    pub(crate) fn weight(&self, name: &str) -> Tensor<'s> {
        self.weights.get(name)
    }

    pub(crate) fn project(&self, name: &str, x: Tensor<'s>) -> Tensor<'s> {
        self.graph.mul_mat(self.weight(&format!("decision.proj_{name}.weight")), x)
    }

    pub(crate) fn norm(&self, name: &str, x: Tensor<'s>) -> Tensor<'s> {
        let (weight, bias) = (self.weight(&format!("{name}.weight")), self.weight(&format!("{name}.bias")));
        self.graph.layer_norm(x, weight, bias, self.layout.epsilon)
    }

    pub(crate) fn linear(&self, name: &str, x: Tensor<'s>) -> Tensor<'s> {
        let product = self.graph.mul_mat(self.weight(&format!("{name}.weight")), x);
        self.graph.add(product, self.weight(&format!("{name}.bias")))
    }

    fn feed_forward(&self, block: usize, x: Tensor<'s>) -> Tensor<'s> {
        let inner = self.linear(&format!("dec.blk.{block}.ffn_up"), self.norm(&format!("dec.blk.{block}.ffn_norm"), x));
        self.linear(&format!("dec.blk.{block}.ffn_down"), self.graph.gelu(inner))
    }

    /// Options read the prompt; they do not see each other.
    pub(crate) fn routing_block(&self, block: usize, options: Tensor<'s>, memory: Tensor<'s>) -> Tensor<'s> {
        let name = format!("dec.blk.{block}.cross_attn");
        let normed = self.norm(&format!("{name}_norm_kv"), memory);
        let source = self.cross_source(&name, normed, options.shape()[1]);
        self.by_pieces(options, memory.shape()[1], |options| {
            let read = self.attend(&name, self.norm(&format!("{name}_norm"), options), source);
            let options = self.graph.add(options, read);
            self.graph.add(options, self.feed_forward(block, options))
        })
    }

    /// Questions read each other, then the prompt.
    pub(crate) fn joint_block(&self, block: usize, fields: Tensor<'s>, memory: Tensor<'s>) -> Tensor<'s> {
        let g = self.graph;
        let own = format!("dec.blk.{block}.attn");
        let normed = self.norm(&format!("{own}_norm"), fields);
        let source = self.projected(&own, normed);
        let read = self.by_pieces(normed, normed.shape()[1], |normed| self.attend(&own, normed, source));
        let fields = g.add(fields, read);

        let cross = format!("dec.blk.{block}.cross_attn");
        let source = self.cross_source(&cross, memory, fields.shape()[1]);
        self.by_pieces(fields, memory.shape()[1], |fields| {
            let read = self.attend(&cross, self.norm(&format!("{cross}_norm"), fields), source);
            let fields = g.add(fields, read);
            g.add(fields, self.feed_forward(block, fields))
        })
    }

    /// One logit per option, from its own vector and that of its question.
    pub(crate) fn logits(&self, inputs: Scored<'s>) -> Tensor<'s> {
        let g = self.graph;
        // PyTorch's default in `normalize`.
        let epsilon = 1e-12;
        let scale = |index| g.element(self.weight("decision.scales"), index);

        let anchor = g.normalize(g.add(inputs.question, inputs.global), epsilon);
        let anchor = g.get_rows(anchor, inputs.owners);
        let prior = g.sum_rows(g.mul(g.normalize(inputs.lexical, epsilon), anchor));

        let option = self.norm("decision.option_norm", inputs.options);
        let field = g.get_rows(self.norm("decision.field_norm", inputs.fields), inputs.owners);
        let cosine = g.sum_rows(g.mul(g.normalize(field, epsilon), g.normalize(option, epsilon)));
        let features = g.concat(field, option, 0);
        let features = g.concat(features, g.mul(field, option), 0);
        let features = g.concat(features, g.abs(g.sub(field, option)), 0);
        let residual = self.linear("decision.scorer_out", g.gelu(self.linear("decision.scorer", features)));

        let joint = g.add(g.mul(cosine, scale(1)), residual);
        g.add(g.mul(prior, scale(0)), g.mul(joint, scale(2)))
    }
}

/// What the score of the options is computed from.
#[derive(Clone, Copy)]
pub(crate) struct Scored<'s> {
    /// `[hidden, questions]`: mean hidden state of each question's text.
    pub(crate) question: Tensor<'s>,
    /// `[hidden, 1]`: hidden state of the last token.
    pub(crate) global: Tensor<'s>,
    /// `[hidden, options]`: mean lexical row of each option's tokens.
    pub(crate) lexical: Tensor<'s>,
    /// `[width, options]`.
    pub(crate) options: Tensor<'s>,
    /// `[width, questions]`.
    pub(crate) fields: Tensor<'s>,
    /// The question of each option.
    pub(crate) owners: Tensor<'s>,
}

impl Head {
    /// An upper bound on the tensors of the answering graph.
    pub(crate) fn graph_size(&self, tokens: usize, questions: usize, options: usize) -> usize {
        let pieces = |queries: usize, keys: usize| queries.div_ceil(piece_rows(queries, keys, self.layout.heads));
        // Tensors of one piece and of one block around its pieces, rounded up from the functions above.
        let (piece, block) = (48, 48);
        let routing = self.layout.routing_blocks * (block + piece * pieces(options, tokens));
        let joint =
            self.layout.joint_blocks * (2 * block + piece * (pieces(questions, tokens) + pieces(questions, questions)));
        routing + joint + 128
    }
}
