/*
 * A question to a model that runs in the background, and gives way to whatever is in front.
 * cc embed.c $(pkg-config --cflags --libs sereno) -o embed && ./embed model.gguf "Why is the sky blue?"
 */
#include <sereno/sereno.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    sereno_error err = {0};
    sereno_session *session = NULL;
    sereno_answer *answer = NULL;
    sereno_piece piece;
    if (argc != 3) return fprintf(stderr, "usage: embed MODEL QUESTION\n"), 2;
    sereno_session_options options = sereno_session_defaults();
    options.model_path = argv[1];
    const sereno_request request = {
        .text = argv[2], .text_size = strlen(argv[2]), .max_tokens = 200, .sampler = sereno_sampler_defaults()};
    int status = sereno_session_open(&options, &session, &err);
    if (!status) status = sereno_session_submit(session, &request, &answer, &err);
    while (!status && sereno_answer_next(answer, &piece)) {
        fwrite(piece.text, 1, piece.size, stdout);
    }
    const sereno_generation *whole;
    if (!status) status = sereno_answer_wait(answer, &whole, &err);
    if (status) fprintf(stderr, "embed: %s\n", err.message);
    else putchar('\n');
    sereno_answer_close(&answer);
    sereno_session_close(&session, NULL);
    return status ? 1 : 0;
}
