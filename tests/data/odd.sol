Route #1: 1 2 3
route #2 : 4
cost 18
