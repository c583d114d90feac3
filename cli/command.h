/* The commands of the program; each parses its own options. argv begins after the command's name. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

int cmd_convert(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);

#endif
